"""SpeculationPlan: the number of predictions that a step verifies for each sequence, and the expected results."""

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
    """Speculation lengths of one step; a speedup is a ratio of goodputs, against the same step without predictions."""

    lengths: Seq[int]
    """Predictions to verify, for each sequence."""

    speedup: float = 1.0
    """The speedup after the draft's prefill."""

    amortized_speedup: float = 1.0
    """The speedup with the draft's prefill amortised over future passes; this is maximised."""

    slowest_speedup: float = 1.0
    """The speedup of the sequence that gains least, after the draft's prefill."""

    prefill: float = 0.0
    """Seconds until the draft has caught up with the sequences."""

    verification: float = 0.0
    """Seconds by which verification makes the pass longer."""

    risk: float = 0.0
    """Most seconds by which the step gets longer, without the prefill, if no prediction comes or is accepted."""

    max_wait: float = 0.0
    """Seconds that the step may wait for predictions, including the prefill."""

    least_chance: float = 0.0
    """The probability that a run is right below which one more prediction does not pay; 0 if it is unknown."""

    keeps_asking: bool = False
    """Whether sequences without predictions keep their earlier requests, since a draft that runs ahead has none yet."""

    @property
    def is_speculative(self) -> bool:
        """Whether there is any prediction to verify."""
        return any(self.lengths)
