"""Outrider's client: generated text as it is written, unbroken by servers that come and go.

    import outrider

    with outrider.Client("localhost:50051") as client:
        for chunk in client.stream("def quicksort", max_tokens=200, temperature=0.7):
            print(chunk.text, end="", flush=True)

`AsyncClient` is the same for asyncio. Both need grpcio and protobuf only.
"""

from outrider.async_client import AsyncClient
from outrider.async_stream import AsyncStream
from outrider.chat.encode import Conversation
from outrider.chat.message import (
    ArgumentsDelta,
    ContentDelta,
    Message,
    MessageDelta,
    ReasoningDelta,
    ToolCall,
    ToolCallStart,
)
from outrider.chat.options import ChatOptions
from outrider.client import Client
from outrider.embedding import Embedding, Embeddings, EmbedOptions, Pooling, TextToEmbed
from outrider.errors import (
    AlreadyExists,
    Cancelled,
    DeadlineExceeded,
    FingerprintMismatch,
    InvalidArgument,
    NotFound,
    OutriderError,
    PermissionDenied,
    ResourceExhausted,
    ServerLost,
    Unauthenticated,
    Unavailable,
    Violation,
)
from outrider.generate_options import GenerateOptions, Loop
from outrider.proof import Proof
from outrider.request import Prompt
from outrider.scoring import ScoreOptions, Scores, TextScore, TextToScore
from outrider.served_model import ModelState, ServedModel
from outrider.session import Session, SessionOptions
from outrider.stream import Stream
from outrider.token_record import Candidate, Dtype, PredictionSource, RejectedPrediction, Suppressed, Tensor, Token
from outrider.types import (
    Chunk,
    Decoding,
    Encoding,
    FingerprintParts,
    FinishReason,
    Limits,
    LoraAdapter,
    ModelInfo,
    NoSpeculationReason,
    PassReport,
    PositionAcceptance,
    Prefill,
    Received,
    Result,
    SourceStats,
    Speculation,
    Started,
    Timings,
    Usage,
)
from outrider.verification import Verdict
from outrider.vocabulary_match import VocabularyMatch

__version__ = "0.1.0"  # of the server too
__all__ = [
    "AlreadyExists",
    "ArgumentsDelta",
    "AsyncClient",
    "AsyncStream",
    "Cancelled",
    "Candidate",
    "ChatOptions",
    "Chunk",
    "Client",
    "ContentDelta",
    "Conversation",
    "DeadlineExceeded",
    "Decoding",
    "Dtype",
    "EmbedOptions",
    "Embedding",
    "Embeddings",
    "Encoding",
    "FingerprintMismatch",
    "FingerprintParts",
    "FinishReason",
    "GenerateOptions",
    "InvalidArgument",
    "Limits",
    "Loop",
    "Message",
    "MessageDelta",
    "LoraAdapter",
    "ModelInfo",
    "ModelState",
    "NoSpeculationReason",
    "NotFound",
    "OutriderError",
    "PassReport",
    "PermissionDenied",
    "Pooling",
    "PositionAcceptance",
    "PredictionSource",
    "Prefill",
    "Prompt",
    "Proof",
    "ReasoningDelta",
    "Received",
    "RejectedPrediction",
    "ResourceExhausted",
    "Result",
    "ScoreOptions",
    "Scores",
    "Session",
    "SessionOptions",
    "SourceStats",
    "Speculation",
    "Started",
    "Suppressed",
    "Stream",
    "Tensor",
    "TextScore",
    "TextToEmbed",
    "TextToScore",
    "Timings",
    "Token",
    "ToolCall",
    "ToolCallStart",
    "ServedModel",
    "ServerLost",
    "Unauthenticated",
    "Unavailable",
    "Usage",
    "Verdict",
    "Violation",
    "VocabularyMatch",
]
