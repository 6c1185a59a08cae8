"""Events: what a generation tells its consumer, in order: progress, chunks, and the end."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum, auto


class FinishReason(Enum):
    """Why a generation ended."""

    STOP_TOKEN = auto()
    STOP_STRING = auto()
    MAX_TOKENS = auto()
    CONTEXT_LENGTH = auto()
    DEADLINE = auto()
    NO_CANDIDATES = auto()
    INVALID_LOGITS = auto()
    TIME_LIMIT = auto()
    LOOP = auto()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could have been drawn, with its log-probability before and after processing."""

    token_id: int
    raw_logprob: float
    logprob: float


class PredictionSource(Enum):
    """Where predictions come from."""

    DRAFT = auto()
    LOOKUP = auto()


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What the model thought of one token of the answer or the prompt; what was not asked is None."""

    token_id: int
    raw_logprob: float | None = None
    logprob: float | None = None
    candidates: tuple[Candidate, ...] = ()
    source: PredictionSource | None = None  # the one that had predicted it, if one had
    rank: int | None = None  # its place among the model's logits, from 1
    entropy: float | None = None  # that of the softmax of the model's logits, in nats
    logits: bytes | None = None  # float32, little endian
    level: float | None = None  # behind it, of samplers that feed back: for the sampling state alone

    @property
    def predicted(self) -> bool:
        """Whether the token had been predicted."""
        return self.source is not None


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a long prompt has been computed, and the asked records of tokens of it."""

    done: int
    total: int
    records: tuple[TokenRecord, ...] = ()

    def __add__(self, later: "Progress") -> "Progress":
        """The later of two, with the records of both."""
        return Progress(later.done, later.total, self.records + later.records)


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did for one sequence; times are in seconds.

    All sequences of the pass share `verifying` and `host`.
    """

    source: PredictionSource | None  # None where nothing was predicted
    num_predicted: int
    waiting: float  # the time spent waiting for predictions
    verifying: float  # the time of the model and the sampler
    host: float | None = None  # the time since the pass before, waiting aside; None after idleness
    num_tokens: int = 0  # those that were committed
    num_accepted: int = 0
    num_alternates: int = 0  # that had taken a chain's place before this pass

    def completed(self, taken: Collection[TokenRecord]) -> "PassReport":
        """The report with what was committed."""
        return replace(self, num_tokens=len(taken), num_accepted=sum(record.predicted for record in taken))


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A text that was taken back, because a banned string was complete with it."""

    text: str
    banned_string: str
    position: int  # index, among the generated tokens, of the one in which the banned string began
    token_id: int  # that token's, which is forbidden there


@dataclass(frozen=True, slots=True)
class Chunk:
    """Text that is safe to release, and every token that has become safe since the chunk before.

    The text released so far is a pure function of the token ids delivered so far.
    """

    text: str
    records: tuple[TokenRecord, ...]
    reports: tuple[PassReport, ...] = ()  # those of the passes that gave the tokens, if asked for
    suppressed: tuple[Suppressed, ...] = ()  # what was taken back at the positions of the tokens
    ends: tuple[int, ...] = field(default=(), compare=False)  # for each record, where the text released with it ends

    def __add__(self, later: "Chunk") -> "Chunk":
        """One chunk for two."""
        return Chunk(
            self.text + later.text,
            self.records + later.records,
            self.reports + later.reports,
            self.suppressed + later.suppressed,
            self.ends + tuple(len(self.text) + end for end in later.ends),
        )

    def text_of(self, first: int, end: int) -> str:
        """What the records from `first` to `end` have released; the last one has released all that was left."""
        start = self.ends[first - 1] if first else 0
        return self.text[start:] if end == len(self.records) else self.text[start : self.ends[end - 1]]


@dataclass(slots=True)
class Timings:
    """Moments of one generation, in seconds on the monotonic clock; 0 where not reached."""

    arrived: float = 0.0
    scheduled: float = 0.0
    prefilled: float = 0.0
    finished: float = 0.0


class NoSpeculation(Enum):
    """Why a generation ran without predictions."""

    FORBIDDEN = auto()
    NO_PREDICTOR = auto()
    UNAVAILABLE = auto()
    SLOWER = auto()


class VocabularyMatch(Enum):
    """What a target's vocabulary is to a draft."""

    SAME = auto()
    TRANSLATED = auto()
    BYTES = auto()


@dataclass(slots=True)
class SourceStats:
    """How the predictions of one source fared."""

    passes: int = 0  # those that verified any of them
    offered: int = 0
    accepted: int = 0


@dataclass(slots=True)
class SpeculationStats:
    """How the predictions of one sequence fared; position i counts the i-th prediction of each pass."""

    passes: int = 0  # those that drew at least one token
    offered: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    by_source: dict[PredictionSource, SourceStats] = field(default_factory=dict)
    why_not: NoSpeculation | None = None  # the latest reason; it matters where nothing was offered
    detail: str = ""
    dropped: str = ""  # why the draft follows the sequence no longer; empty while it does
    alternates: int = 0  # passes behind which the draft had an alternate ready for what it had not predicted
    losses: int = 0  # times that the draft went away while it followed the sequence, or dropped it
    returns: int = 0  # times that it followed the sequence again
    vocabulary: VocabularyMatch | None = None  # what the target's is to the draft that followed the sequence last

    def count(self, source: PredictionSource | None, num_offered: int, num_accepted: int) -> None:
        """Add one pass that drew, with its predictions, if it had a source of any."""
        self.passes += 1
        if source is not None:
            stats = self.by_source.setdefault(source, SourceStats())
            stats.passes += 1
            stats.offered += num_offered
            stats.accepted += num_accepted
        self._reach(num_offered)
        for position in range(num_offered):
            self.offered[position] += 1
            self.accepted[position] += position < num_accepted

    def add(self, other: "SpeculationStats") -> None:
        """Add another's counts, which may go on while they are read."""
        self.passes += other.passes
        self._reach(len(other.offered))
        for position, (offered, accepted) in enumerate(zip(other.offered, other.accepted, strict=False)):
            self.offered[position] += offered
            self.accepted[position] += accepted
        for source, counts in [*other.by_source.items()]:
            stats = self.by_source.setdefault(source, SourceStats())
            stats.passes += counts.passes
            stats.offered += counts.offered
            stats.accepted += counts.accepted
        self.alternates += other.alternates
        self.losses += other.losses
        self.returns += other.returns

    def _reach(self, num_positions: int) -> None:
        missing = num_positions - len(self.offered)
        self.offered.extend([0] * missing)
        self.accepted.extend([0] * missing)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a generation: exactly one per sequence, after all its chunks.

    `text` is what was held back until then, where the generation ended without a token that releases it.
    """

    reason: FinishReason
    stop_token_id: int | None
    stop_string: str | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    preemptions: int
    timings: Timings
    speculation: SpeculationStats
    text: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine can no longer serve this generation; a continuation elsewhere can."""

    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The tokens to continue from are not those of the generation."""

    message: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """Somebody who may has ended this generation; it is not to be continued anywhere."""

    message: str


Event = Progress | Chunk | Finished | Failed | Refused | Aborted
