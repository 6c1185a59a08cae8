"""SpeculationPlan: the number of predictions that a step of some StepSize verifies, and how long it waits for them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepSize:
    """The size of a step before predictions for some sequences."""

    num_rows: int
    """Rows of its pass."""

    spare_rows: int
    """Rows that it may have in addition."""

    num_others: int = 0
    """Further sequences, which the pass gives a token or brings nearer to one."""


@dataclass(frozen=True, slots=True)
class SpeculationPlan:
    """Speculation lengths of one step. Times are in seconds."""

    lengths: list[int]
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
