"""What the client gives and takes: plain, immutable values in place of protobuf messages."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from outrider.chat.message import Message, MessageDelta
from outrider.notebook.html import answer_html, table_html
from outrider.proof import Proof
from outrider.token_record import PredictionSource, RejectedPrediction, Suppressed, Token
from outrider.vocabulary_match import VocabularyMatch


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP_TOKEN = "stop_token"
    STOP_STRING = "stop_string"
    MAX_TOKENS = "max_tokens"
    CONTEXT_LENGTH = "context_length"
    DEADLINE = "deadline"
    NO_CANDIDATES = "no_candidates"
    GRAMMAR_INCOMPLETE = "grammar_incomplete"
    INVALID_LOGITS = "invalid_logits"
    TIME_LIMIT = "time_limit"
    LOOP = "loop"
    UNKNOWN = "unknown"
    """The server gave a reason that this version of the client does not know."""


class NoSpeculationReason(StrEnum):
    """Why a generation ran without predictions."""

    FORBIDDEN = "forbidden"
    NO_PREDICTOR = "no_predictor"
    UNAVAILABLE = "unavailable"
    SLOWER = "slower"
    UNKNOWN = "unknown"
    """The server gave a reason that this version of the client does not know."""


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass of the model did for one generation; times are in seconds."""

    tokens: int
    """Committed."""
    predicted: int
    accepted: int
    source: PredictionSource | None
    """None if nothing was predicted."""
    waiting: float
    """For predictions, before the pass."""
    verifying: float
    """The pass itself, shared by all generations that it served."""
    host: float | None
    """The server's own work between the pass before and this one; None if it was idle before."""
    alternates: int = 0
    """As `Speculation.alternates`, before this pass: if it grew, the predictions of this pass continue an alternate."""
    rejected: tuple[RejectedPrediction, ...] = ()
    """The predictions that were not accepted, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of generated tokens and the text that may be shown now; the text may be later than the tokens.

    The last one may have text only: what was held back until an end that no token brought about, such as a deadline.
    """

    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[Token, ...]
    """One record per id, if asked for."""
    pass_reports: tuple[PassReport, ...]
    """One per pass that gave these tokens, if asked for."""
    suppressed: tuple[Suppressed, ...] = ()
    """What these tokens took the place of."""
    sample: int = 0
    """Which of several samples it belongs to."""
    message_deltas: tuple[MessageDelta, ...] = ()
    """What follows in the message that the answer is read as, if asked for."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start of a generation, with all that is needed to take it up again elsewhere."""

    request_id: str
    seed: int
    prompt_token_ids: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    model: str
    fingerprint: str
    request_digest: str = ""
    """Of all that the answer depends on beside fingerprint and seed."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """Progress on the prompt, in tokens."""

    done_tokens: int
    total_tokens: int
    records: tuple[Token, ...] = ()
    """Those of the tokens of the prompt that follow the ones before, if asked for."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of tokens."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time went on the server that ended the generation, in seconds."""

    queue: float
    prefill: float
    first_token: float | None
    """None if no token was generated there."""
    decode: float
    total: float


@dataclass(frozen=True, slots=True)
class PositionAcceptance:
    """Predictions verified at one position of a pass, and those of them that were right."""

    offered: int
    accepted: int


@dataclass(frozen=True, slots=True)
class SourceStats:
    """How the predictions of one source fared."""

    source: PredictionSource
    num_spec_steps: int
    predicted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Speculation:
    """What speculation did on the server that ended the generation, in the words of `SpeculationStats` in
    `outrider/v1/common.proto`.
    """

    passes: int
    predicted: int
    accepted: int
    tokens_per_pass: float
    by_position: tuple[PositionAcceptance, ...]
    no_speculation_reason: NoSpeculationReason | None
    """None if predictions were verified."""
    no_speculation_detail: str
    alternates: int
    """Passes with a wrong prediction whose right answer the draft had prepared."""
    draft_losses: int
    draft_returns: int
    num_spec_steps: int
    """Passes that verified predictions."""
    mean_acceptance_length: float
    """Tokens committed per pass of those."""
    draft_acceptance_rate: float
    acceptance_histogram: tuple[int, ...]
    """Passes of those that accepted 0, 1, ... predictions."""
    by_source: tuple[SourceStats, ...]
    draft_vocabulary: VocabularyMatch | None
    speedup: float
    """The time without predictions, divided by the time that was taken; 0 unless the server chose their number."""
    expected_speedup: float
    """The speedup that the server expected."""


@dataclass(frozen=True, slots=True)
class Received:
    """What has arrived of a generation that may not be whole."""

    started: Started | None
    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[Token, ...]
    prompt_records: tuple[Token, ...]
    further_samples: "tuple[Received, ...]" = ()
    """Of several samples all but the first."""


@dataclass(frozen=True, slots=True)
class Result:
    """A whole generation."""

    started: Started
    text: str
    token_ids: tuple[int, ...]
    tokens: tuple[Token, ...]
    finish_reason: FinishReason
    stop_string: str | None
    """What matched, with `FinishReason.STOP_STRING`."""
    stop_token_id: int | None
    """What matched, with `FinishReason.STOP_TOKEN`."""
    usage: Usage
    timings: Timings
    speculation: Speculation
    pass_reports: tuple[PassReport, ...]
    """One per pass that gave tokens, if asked for."""
    prompt_records: tuple[Token, ...]
    """One per token of the prompt, if asked for; the first has no log-probability."""
    suppressed: tuple[Suppressed, ...]
    """What was taken back because of `banned_strings`."""
    resumed: int
    """How many times the generation was interrupted and taken up again."""
    further_samples: "tuple[Result, ...]" = ()
    """Of several samples all but the first."""
    message: Message | None = None
    """The answer as a message of a conversation, if asked for."""
    proof: Proof | None = None
    """By which any server of the fingerprint can verify it; None if the server is older than this client."""

    def _repr_html_(self) -> str:
        answers = (self, *self.further_samples)
        return "".join(answer_html(each.text, each.tokens, each._figures()) for each in answers)

    def _figures(self) -> dict[str, str]:
        speculation, seconds = self.speculation, self.timings.decode
        return {
            "tokens": f"{self.usage.completion_tokens} after {self.usage.prompt_tokens} of the prompt",
            "tokens per pass": f"{speculation.tokens_per_pass:.2f}",
            "accepted": f"{speculation.accepted} of {speculation.predicted} predicted" if speculation.predicted else "",
            "tokens per second": f"{(len(self.token_ids) - 1) / seconds:.1f}" if seconds else "",
            "ended by": self.finish_reason.replace("_", " "),
            "seed": str(self.started.seed),
        }


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encoded text: the ids, and the bytes that each of them stands for."""

    token_ids: tuple[int, ...]
    token_bytes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoded ids: the bytes, and the same as text with U+FFFD for what is not valid UTF-8."""

    text: str
    bytes: bytes


@dataclass(frozen=True, slots=True)
class FingerprintParts:
    """What the bytes of an answer depend on beside the request."""

    build: str
    device: str
    weights_hash: str
    weight_format: str
    kv_type: str
    noise_version: int
    tokenizer_hash: str
    chat_hash: str


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may ask for."""

    max_stop_strings: int
    max_stop_string_bytes: int
    max_stop_token_ids: int
    max_logit_biases: int
    max_top_candidates: int
    max_predictions: int
    max_request_id_bytes: int
    max_loop_window: int
    max_logits_token_ids: int
    max_grammar_bytes: int
    max_banned_strings: int
    max_banned_string_bytes: int
    max_tools: int
    max_tools_bytes: int
    max_suppressed_token_ids: int
    max_bad_words: int
    max_bad_word_tokens: int
    max_sequence_breakers: int
    max_sequence_breaker_bytes: int
    max_infill_files: int


class LoraAdapter(NamedTuple):
    """A change of a model's weights that requests may ask for by its name."""

    name: str
    fingerprint: str
    """What the bytes of answers by it depend on beside the request."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model and the server."""

    name: str
    architecture: str
    context_length: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    fingerprint: str
    fingerprint_parts: FingerprintParts
    limits: Limits
    has_chat_template: bool
    loras: tuple[LoraAdapter, ...] = ()
    has_infill: bool = False
    """Whether a prompt may have a `suffix`."""
    has_draft: bool = False
    """Whether a draft was connected when this was asked."""
    head: str = ""
    """The head that is attached to the model, "mtp" for its own layer for multi-token prediction; empty if none is."""

    def _repr_html_(self) -> str:
        parts = self.fingerprint_parts
        return table_html(
            {
                "model": self.name,
                "architecture": self.architecture,
                "context": f"{self.context_length} tokens",
                "vocabulary": f"{self.vocab_size} tokens",
                "weights, keys and values": f"{parts.weight_format}, {parts.kv_type} on {parts.device}",
                "chat template": "yes" if self.has_chat_template else "no",
                "fingerprint": self.fingerprint,
            }
        )
