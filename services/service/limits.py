"""Limits: the bounds on one request."""

from dataclasses import dataclass

from services.engine.config import MOST_PREDICTIONS
from services.engine.sampling_params import MAX_BAD_WORD_TOKENS, MAX_BAD_WORDS, MAX_SUPPRESSED_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the sizes in a request; GetModelInfo reports them to clients."""

    max_stop_strings: int = 16
    max_stop_string_bytes: int = 256
    max_stop_token_ids: int = 64
    max_logit_biases: int = 512
    max_top_candidates: int = 20
    max_predictions: int = MOST_PREDICTIONS
    max_request_id_bytes: int = 128
    max_loop_window: int = 4096
    max_logits_token_ids: int = 256
    max_grammar_bytes: int = 1 << 16
    max_banned_strings: int = 128
    max_banned_string_bytes: int = 128
    max_tools: int = 128
    max_tools_bytes: int = 1 << 18
    max_suppressed_token_ids: int = MAX_SUPPRESSED_IDS
    max_bad_words: int = MAX_BAD_WORDS
    max_bad_word_tokens: int = MAX_BAD_WORD_TOKENS
    max_sequence_breakers: int = 32
    max_sequence_breaker_bytes: int = 40
    max_infill_files: int = 256


MAX_REQUEST_BYTES = 4 << 20
MAX_RECORDS_BYTES = 3 << 20  # of one message: gRPC's clients take 4 MB by default
LIMITS = Limits()
MAX_TIME_LIMIT = 24 * 3600  # seconds
MAX_MESSAGES = 1 << 14  # of one conversation; also the limit of its parts and of its calls
MAX_TEMPLATE_VARIABLES = 1 << 16  # bytes
MAX_SALT_BYTES = 128  # of a cache's salt
MAX_STREAMS = 1024  # of one connection, health checks included: calls beyond them wait at the client
MAX_SCORED_TOKENS = 1 << 17  # of one request: their scores fit into a message
MAX_EMBEDDED_TEXTS = 256  # of one request
MAX_EMBEDDED_VALUES = MAX_RECORDS_BYTES // 4  # of all vectors of one request, which fit into a message
MAX_SAMPLES = 16  # of one prompt; a server that runs fewer sequences at once allows fewer
MAX_SESSIONS = 256  # of one model; their tokens are in host memory
