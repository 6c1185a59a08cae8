"""What a target tells a draft (protos/outrider/v1/draft.proto), before it becomes a message of the protocol."""

from dataclasses import dataclass

from services.target.sequence.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Open:
    """A sequence begins."""

    sequence_id: int
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class Commit:
    """Truncate the sequence to `position`, then append; credit that is granted with it ends with the next one."""

    sequence_id: int
    position: int
    token_ids: list[int]
    wanted: int = 0


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


Outgoing = Open | Commit | Window | Close
