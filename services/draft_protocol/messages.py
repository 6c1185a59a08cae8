"""The messages of a draft link after its hellos; their fields are those of draft.proto."""

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
    masked_ids: Seq[int]  # until `min_tokens` tokens are generated
    grammar: GrammarSource | None
    cache: CachePolicy
    traceparent: str = ""
    lora: str = ""  # the name of the target's adapter

    @classmethod
    def of(cls, sequence_id: int, request: Request) -> "Open":
        """The message for a request: all that a draft must know of it except its tokens."""
        return cls(
            sequence_id=sequence_id,
            sampling=replace(request.sampling, banned_strings=()),  # only the target's text is searched for them
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
    """Truncate the sequence to `position`, then append; credit granted with a commit ends with the next commit."""

    sequence_id: int
    position: int
    token_ids: list[int]
    wanted: int = 0
    least_chance: float = 0.0  # the draft stops when the probability that all its tokens are right falls below this


@dataclass(frozen=True, slots=True)
class Window:
    """The credit of the draft: how many tokens after the last commit it may predict."""

    sequence_id: int
    tokens: int
    alternates: int = 0  # the number of next predictions that should have one


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
    ends: bool = False  # whether no more come before the next commit, although more are wanted

    @property
    def largest_id(self) -> int:
        """The largest of its token ids."""
        return max(self.token_ids, default=0)


@dataclass(frozen=True, slots=True)
class AlternatePrediction:
    """If the token at `position` is `token_id`, the sequence continues with `token_ids`, in an epoch of its own."""

    sequence_id: int
    epoch: int
    position: int
    token_id: int
    token_ids: tuple[int, ...]
    from_epoch: int = 0  # the epoch of the chain that it branches off; 0, not given: the newest epoch sent

    @property
    def largest_id(self) -> int:
        """The largest of its token ids."""
        return max((self.token_id, *self.token_ids))


class ReleaseReason(StrEnum):
    """Why the draft no longer follows a sequence, by the protocol's names."""

    OUT_OF_MEMORY = "RELEASE_REASON_OUT_OF_MEMORY"
    TOO_LONG = "RELEASE_REASON_TOO_LONG"
    REFUSED = "RELEASE_REASON_REFUSED"


@dataclass(frozen=True, slots=True)
class Release:
    """The draft has dropped a sequence."""

    sequence_id: int
    reason: str  # a ReleaseReason, or another reason that a draft sent


@dataclass(frozen=True, slots=True)
class DraftLoad:
    """The draft's load, apart from the sequences of the target that it is sent to."""

    other_sequences: int = 0
    free_tokens: int = 0  # for which its cache has room


TargetMessage = Open | Commit | Window | Close
DraftMessage = Prediction | AlternatePrediction | Release  # of a sequence
