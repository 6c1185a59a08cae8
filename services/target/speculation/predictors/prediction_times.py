"""PredictionTimes: the seconds until predictions are there."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SequenceTimes:
    """Of one sequence."""

    num_ready: int = 0
    """Predictions that are there."""

    elapsed: float = 0.0
    """Seconds since the others were requested; 0 if they were not."""

    reading: float | None = 0.0
    """Seconds of the target's own time that the predictor needs to read the sequence first; None if it must read it and
    its speed is unknown.
    """


@dataclass(frozen=True, slots=True)
class PredictionTimes:
    """Of a predictor, for some sequences. By default predictions cost no time."""

    sequences: Seq[SequenceTimes]

    delay: float = 0.0
    """Seconds from a request to its answer, without the time of its predictions."""

    each: float = 0.0
    """Seconds for each prediction."""

    growth: float = 0.0
    """Share by which an answer takes longer for each further sequence that is asked for at the same time."""

    is_trusted: bool = True
    """Whether answers were measured, and the last wait for one was not in vain."""

    runs_ahead: bool = False
    """Whether it predicts on other cores while the target computes, so that missing predictions come a pass later."""

    def waits(self, most: int) -> NDArray[np.float64]:
        """The seconds until 1 to `most` predictions are there for each sequence alone, [sequences, most]."""
        ready = np.array([[each.num_ready] for each in self.sequences])
        elapsed = np.array([[each.elapsed] for each in self.sequences])
        missing = np.arange(1, most + 1) - ready
        waits: NDArray[np.float64] = np.maximum(0.0, self.delay + self.each * missing - elapsed)
        waits[missing <= 0] = 0.0
        return waits
