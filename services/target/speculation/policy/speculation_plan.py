"""SpeculationPlan: the number of predictions that a step of some StepSize verifies, and how long it waits for them."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepSize:
    """The size of a step before predictions for some sequences."""

    num_rows: int  # of its pass
    spare_rows: int  # that it may have in addition
    num_others: int = 0  # further sequences, which the pass gives a token or brings nearer to one


@dataclass(frozen=True, slots=True)
class SpeculationPlan:
    """Speculation lengths of one step. Times are in seconds."""

    lengths: list[int]  # predictions to verify, for each sequence
    speedup: float = 1.0  # expected mean tokens per second, over those of the same step without predictions
    own_speedups: Seq[float] = ()  # the same for each sequence; empty if none is expected
    max_wait: float = 0.0  # the longest wait for predictions
    invested: float = 0.0  # the part of it, in which the draft reads, that later steps' gains are trusted to return
    least_chance: float = 0.0  # that a run is right, below which one more prediction does not pay; 0 if it is unknown
    keeps_asking: bool = False  # sequences without predictions keep their earlier requests, which may come later
