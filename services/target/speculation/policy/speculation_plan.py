"""SpeculationPlan: the number of predictions that a step of some StepSize verifies, and how long it waits for them."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class StepSize:
    """The size of a step before predictions for some sequences."""

    num_rows: int  # of its pass
    spare_rows: int  # that it may have in addition
    num_others: int = 0  # further sequences, which the pass gives a token or brings nearer to one
    prompt_rows: int = 0  # of its rows, those of prompts


class Decision(StrEnum):
    """What a step does for the sequences that leave the choice to the server."""

    PREDICT = "predict"  # the lengths with the most expected tokens per second
    PROBE = "probe"  # one prediction for one sequence, to see whether they pay now
    LATER = "later"  # none now, but the draft continues: predictions that come during the pass are expected to pay
    NONE = "none"  # none, since they would not pay
    MEASURE = "measure"  # none, to measure the time of a pass without predictions
    REHEARSE = "rehearse"  # a fixed number, while no client waits


@dataclass(frozen=True, slots=True)
class SpeculationPlan:
    """Speculation lengths of one step. Times are in seconds."""

    lengths: list[int]  # predictions to verify, for each sequence
    decision: Decision = Decision.NONE  # also without sequences
    speedup: float = 1.0  # expected mean tokens per second, over those of the same step without predictions
    own_speedups: Seq[float] = ()  # the same for each sequence; empty if none is expected
    max_wait: float = 0.0  # the longest wait for predictions
    invested: float = 0.0  # the part of it, in which the draft reads, that later steps' gains are trusted to return
    least_chance: float = 0.0  # that a run is right, below which one more prediction does not pay; 0 if it is unknown
