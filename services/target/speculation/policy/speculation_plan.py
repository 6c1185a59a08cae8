"""SpeculationPlan: how many predictions a step verifies for each sequence, and what is expected of that."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence


@dataclass(frozen=True, slots=True)
class AutoSequence:
    """A sequence whose request leaves the speculation length to the server."""

    sequence: Sequence

    max_length: int
    """Predictions that it can take at most."""


@dataclass(frozen=True, slots=True)
class SpeculationPlan:
    """Speculation lengths of one step; a speedup is a ratio of goodputs, against the same step without predictions."""

    lengths: Seq[int]
    """Predictions to verify, for each sequence."""

    speedup: float = 1.0
    """Once the draft has prefilled."""

    amortized_speedup: float = 1.0
    """With the draft's prefill shared out over the passes to come: what is maximised."""

    slowest_speedup: float = 1.0
    """Of the sequence that gains least, once the draft has prefilled."""

    prefill: float = 0.0
    """Seconds until the draft has caught up with the sequences."""

    verification: float = 0.0
    """Seconds that the pass takes longer."""

    risk: float = 0.0
    """Seconds that the step takes longer at most, but for the prefill, if no prediction comes or is accepted."""

    max_wait: float = 0.0
    """Seconds that the step may wait for predictions, with the prefill."""

    least_chance: float = 0.0
    """That all of a run is right, below which one more prediction costs more than it is worth; 0: nobody knows."""

    keeps_asking: bool = False
    """Whether what was asked before still stands for sequences without any: a draft runs ahead, and has nothing yet."""

    @property
    def is_speculative(self) -> bool:
        """Whether there is any prediction to verify."""
        return any(self.lengths)
