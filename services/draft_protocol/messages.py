"""The messages of a draft link after its hellos, as both ends know them; their fields are those of draft.proto."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import StrEnum

from services.engine.grammar.source import GrammarSource
from services.engine.request import CachePolicy, Request
from services.engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A sequence begins; commits bring its tokens."""

    sequence_id: int
    sampling: SamplingParams
    num_prompt: int
    min_tokens: int
    masked_ids: Seq[int]  # until so many tokens are generated
    grammar: GrammarSource | None
    cache: CachePolicy
    traceparent: str = ""
    lora: str = ""  # the name of the adapter that the target has

    @classmethod
    def of(cls, sequence_id: int, request: Request) -> "Open":
        """What a draft has to know of a request, but for its tokens."""
        return cls(
            sequence_id=sequence_id,
            sampling=replace(request.sampling, banned_strings=()),  # which only the target's text is searched for
            num_prompt=len(request.prompt),
            min_tokens=request.stops.min_tokens,
            masked_ids=sorted(request.stops.token_ids),
            grammar=None if request.grammar is None else request.grammar.source,
            cache=request.cache,
            traceparent=request.traceparent,
            lora=request.lora.name if request.lora else "",
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """Truncate the sequence to `position`, then append; credit that is granted with it ends with the next one."""

    sequence_id: int
    position: int
    token_ids: list[int]
    wanted: int = 0
    least_chance: float = 0.0  # of all wanted to be right, below which no more is waited for


@dataclass(frozen=True, slots=True)
class Window:
    """How far beyond the last commit the draft may run."""

    sequence_id: int
    tokens: int
    alternates: int = 0  # at how many of the next predictions


@dataclass(frozen=True, slots=True)
class Close:
    """A sequence ends."""

    sequence_id: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """A run of predicted tokens; within an epoch the runs continue one another."""

    sequence_id: int
    epoch: int
    position: int
    token_ids: tuple[int, ...]
    ends: bool = False  # whether it is all that comes before the next commit, though more are wanted

    @property
    def largest_id(self) -> int:
        """Of its tokens."""
        return max(self.token_ids, default=0)


@dataclass(frozen=True, slots=True)
class AlternatePrediction:
    """If the token at a position is this one, the sequence goes on with these, in an epoch that then begins."""

    sequence_id: int
    epoch: int
    position: int
    token_id: int
    token_ids: tuple[int, ...]
    from_epoch: int = 0  # off whose chain it branches; 0 from a draft that does not say: the newest that it told of

    @property
    def largest_id(self) -> int:
        """Of its tokens."""
        return max((self.token_id, *self.token_ids))


class ReleaseReason(StrEnum):
    """Why the draft no longer follows a sequence, as the protocol names it."""

    OUT_OF_MEMORY = "RELEASE_REASON_OUT_OF_MEMORY"
    TOO_LONG = "RELEASE_REASON_TOO_LONG"
    REFUSED = "RELEASE_REASON_REFUSED"


@dataclass(frozen=True, slots=True)
class Release:
    """The draft has dropped a sequence."""

    sequence_id: int
    reason: str  # a ReleaseReason, or whatever else a draft says


@dataclass(frozen=True, slots=True)
class DraftLoad:
    """What the draft has to do beside the sequences of the target that hears it."""

    other_sequences: int = 0
    free_tokens: int = 0  # that its cache has room for


TargetMessage = Open | Commit | Window | Close
DraftMessage = Prediction | AlternatePrediction | Release  # of a sequence
