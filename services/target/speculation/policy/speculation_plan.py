"""SpeculationPlan: the number of predictions that a step verifies for each sequence, and how long it waits for them."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence


@dataclass(frozen=True, slots=True)
class AutoSequence:
    """A sequence whose request leaves the speculation length to the server."""

    sequence: Sequence

    max_length: int
    """The most predictions that it can take."""


@dataclass(frozen=True, slots=True)
class SpeculationPlan:
    """Speculation lengths of one step. Times are in seconds."""

    lengths: Seq[int]
    """Predictions to verify, for each sequence."""

    speedup: float = 1.0
    """Expected tokens per second, over those of the same step without predictions."""

    max_wait: float = 0.0
    """The longest wait for predictions."""

    invested: float = 0.0
    """The part of it, in which the draft reads, that the gains of later steps are trusted to return."""

    least_chance: float = 0.0
    """The probability that a run is right below which one more prediction does not pay; 0 if it is unknown."""

    keeps_asking: bool = False
    """Whether sequences without predictions keep their earlier requests, since a draft that runs ahead has none yet."""

    @property
    def is_speculative(self) -> bool:
        """Whether there is any prediction to verify."""
        return any(self.lengths)
