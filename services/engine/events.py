"""Events: the messages of a generation to its consumer, in order: its start, progress, chunks, and the end."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class FinishReason(Enum):
    """Why a generation ended."""

    STOP_TOKEN = auto()
    STOP_STRING = auto()
    MAX_TOKENS = auto()
    CONTEXT_LENGTH = auto()
    DEADLINE = auto()
    NO_CANDIDATES = auto()
    GRAMMAR_INCOMPLETE = auto()  # no candidates before the text is complete in its grammar
    INVALID_LOGITS = auto()
    TIME_LIMIT = auto()
    LOOP = auto()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could have been sampled, with its log-probability before and after processing."""

    token_id: int
    raw_logprob: float
    logprob: float


class PredictionSource(Enum):
    """The source of predictions."""

    DRAFT = auto()
    LOOKUP = auto()
    ATTACHED = auto()
    EXPECTED = auto()  # by the request


class TokenRecord(NamedTuple):  # which is made faster than a frozen dataclass
    """The model's figures of one token of the answer or the prompt; None: not requested."""

    token_id: int
    raw_logprob: float | None = None
    logprob: float | None = None
    candidates: tuple[Candidate, ...] = ()
    source: PredictionSource | None = None  # the source that predicted it; None: not predicted
    rank: int | None = None  # its rank among the model's logits, from 1
    entropy: float | None = None  # of the softmax of the model's logits, in nats
    logits: bytes | None = None  # float32, little endian
    level: float | None = None  # after it, of samplers that feed back; only for the sampling state

    @property
    def predicted(self) -> bool:
        """Whether the token was predicted."""
        return self.source is not None


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The generation takes part in passes from now on."""

    num_cached: int  # tokens of its own text that were found in the cache
    at: float  # seconds on the monotonic clock


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a long prompt has been computed, and the requested records of its tokens."""

    done: int
    total: int
    records: tuple[TokenRecord, ...] = ()

    def __add__(self, later: "Progress") -> "Progress":
        """Return the later progress, with the records of both."""
        return Progress(later.done, later.total, self.records + later.records)


@dataclass(frozen=True, slots=True)
class PassReport:
    """The figures of one pass for one sequence; times are in seconds.

    All sequences of the pass share `verifying` and `host`.
    """

    source: PredictionSource | None  # None: nothing was predicted
    predictions: tuple[int, ...]
    waiting: float  # the time spent waiting for predictions
    verifying: float  # the time of the model and the sampler
    host: float | None = None  # the time since the pass before, without waiting; None: the engine was idle
    num_tokens: int = 0  # committed tokens
    num_accepted: int = 0  # of the committed tokens
    num_right: int = 0  # predictions that equal the drawn tokens; a banned string may take some back
    num_alternates: int = 0  # alternates that replaced a chain before this pass

    @property
    def rejected(self) -> tuple[int, ...]:
        """The predictions that differ from the drawn tokens, or come after one that does."""
        return self.predictions[self.num_right :]

    def completed(self, drawn: Iterable[TokenRecord], kept: Collection[TokenRecord]) -> "PassReport":
        """Return the report with the counts of the drawn tokens, and of those that were committed."""
        num_right, num_accepted = (sum(record.predicted for record in some) for some in (drawn, kept))
        return replace(self, num_tokens=len(kept), num_accepted=num_accepted, num_right=num_right)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A text that was retracted because it completed a banned string."""

    text: str
    banned_string: str
    position: int  # index, among the generated tokens, of the token in which the banned string began
    token_id: int  # the id of that token, which is forbidden there


@dataclass(slots=True)
class Chunk:
    """Text that can be released, and all tokens that became releasable since the chunk before.

    The text released so far is a pure function of the token ids delivered so far.
    """

    text: str
    records: tuple[TokenRecord, ...]
    reports: tuple[PassReport, ...] = ()  # of the passes that gave the tokens, if requested
    suppressed: tuple[Suppressed, ...] = ()  # texts retracted at the positions of the tokens
    ends: tuple[int, ...] = field(default=(), compare=False)  # for each record, the end of the text released with it

    def __add__(self, later: "Chunk") -> "Chunk":
        """Return both chunks as one."""
        return Chunk(
            self.text + later.text,
            self.records + later.records,
            self.reports + later.reports,
            self.suppressed + later.suppressed,
            self.ends + tuple(len(self.text) + end for end in later.ends),
        )

    def text_of(self, first: int, end: int) -> str:
        """Return the text that the records from `first` to `end` released; the last record released all the rest."""
        start = self.ends[first - 1] if first else 0
        return self.text[start:] if end == len(self.records) else self.text[start : self.ends[end - 1]]


@dataclass(slots=True)
class Timings:
    """Moments of one generation, in seconds on the monotonic clock; 0: not reached."""

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
    """How a draft's vocabulary relates to the target's."""

    SAME = auto()
    TRANSLATED = auto()
    BYTES = auto()


@dataclass(slots=True)
class SourceStats:
    """Counts of the predictions of one source."""

    passes: int = 0  # passes that verified some of them
    offered: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class FollowCounts:
    """What happened between a draft and one sequence since the last counts."""

    opens: int = 0  # times that the draft began to follow the sequence
    losses: int = 0  # times that it disconnected while it followed the sequence, or dropped it
    alternates: int = 0  # passes after a rejection for which it had an alternate ready
    vocabulary: VocabularyMatch | None = None  # how the vocabularies match, if it began to follow the sequence

    def __add__(self, later: "FollowCounts") -> "FollowCounts":
        """Return the counts of both."""
        return FollowCounts(
            self.opens + later.opens,
            self.losses + later.losses,
            self.alternates + later.alternates,
            later.vocabulary or self.vocabulary,
        )


@dataclass(slots=True)
class SpeculationSeconds:
    """What predictions that the server chose saved, as it came and as it was expected; sums over steps."""

    taken: float = 0.0
    """The steps' time."""

    plain: float = 0.0
    """The time that their tokens would have taken without predictions."""

    expected: float = 0.0
    """The same, as expected before the steps."""

    def add(self, taken: float, plain: float, expected_speedup: float) -> None:
        """Add one step."""
        self.taken += taken
        self.plain += plain
        self.expected += expected_speedup * taken


@dataclass(slots=True)
class SpeculationStats:
    """Counts of the predictions of one sequence; position i counts the i-th prediction of each pass.

    Those that the request expects are many, and are counted by their source only.
    """

    passes: int = 0  # passes that sampled at least one token
    offered: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    by_source: dict[PredictionSource, SourceStats] = field(default_factory=dict)
    why_not: NoSpeculation | None = None  # the latest reason; it matters if nothing was offered
    detail: str = ""
    alternates: int = 0  # passes after a rejection for which the draft had an alternate ready
    losses: int = 0  # times that the draft disconnected while it followed the sequence, or dropped it
    returns: int = 0  # times that it followed the sequence again
    vocabulary: VocabularyMatch | None = None  # for the draft that followed the sequence last
    opens: int = 0  # times that a draft began to follow the sequence
    seconds: SpeculationSeconds = field(default_factory=SpeculationSeconds)  # if the server chose its predictions

    def count(self, source: PredictionSource | None, num_offered: int, num_accepted: int) -> None:
        """Add one pass that sampled tokens, with its predictions if it had a source of them."""
        self.passes += 1
        if source is not None:
            stats = self.by_source.setdefault(source, SourceStats())
            stats.passes += 1
            stats.offered += num_offered
            stats.accepted += num_accepted
        if source is PredictionSource.EXPECTED:
            return
        self._reach(num_offered)
        for position in range(num_offered):
            self.offered[position] += 1
            self.accepted[position] += position < num_accepted

    def follow(self, counts: FollowCounts) -> None:
        """Add what happened between a draft and the sequence."""
        self.alternates += counts.alternates
        self.losses += counts.losses
        self.opens += counts.opens
        self.returns = min(self.losses, max(0, self.opens - 1))
        self.vocabulary = counts.vocabulary or self.vocabulary

    def add(self, other: "SpeculationStats") -> None:
        """Add the counts of another, which may change meanwhile."""
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

    `text` is the text that was held back until then, if no last token releases it.
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
    embedding: NDArray[np.float32] | None = field(default=None, compare=False)  # if states are pooled, [hidden_size]


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine can no longer serve this generation; another server can continue it."""

    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The request to continue a generation has other tokens than the generation."""

    message: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """An administrator cancelled this generation; it must not be continued anywhere."""

    message: str


Event = Scheduled | Progress | Chunk | Finished | Failed | Refused | Aborted


def num_records(event: Event) -> int:
    """Return the number of tokens whose records are in an event: what waits for a slow reader."""
    return len(event.records) if isinstance(event, _WITH_RECORDS) else 0


_WITH_RECORDS = (Chunk, Progress)
