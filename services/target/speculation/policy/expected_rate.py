"""The equation of the policy: the numbers of predictions with the most expected tokens per second."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.target.speculation.policy.speculation_plan import StepSize
from services.target.speculation.predictors.prediction_times import PredictionTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """All that is known about a step over some sequences before it. Times are in seconds."""

    chances: NDArray[np.float64]
    """The probability that each prediction and all before it are accepted, [sequences, positions]."""
    most: NDArray[np.int64]  # predictions for each sequence, [sequences]
    passes: NDArray[np.float64]  # the time of a pass of 0, 1, ... rows
    size: StepSize
    times: PredictionTimes
    reading: NDArray[np.float64]
    """The draft's time to read each sequence first, for each token that gains by it, [sequences]."""
    wait_price: float = 1.0  # the seconds that a second of waiting must save
    protected: Iterable[int] = ()  # the indices of the sequences that the step may not slow down

    @property
    def plain(self) -> float:
        """The time of the pass without predictions and without the rows of prompts, which some pass must compute in any
        case: that a pass takes long because of them is no reason to predict.
        """
        return float(self.passes[self.size.num_rows - self.size.prompt_rows])

    @property
    def longer(self) -> NDArray[np.float64]:
        """The times by which 1, 2, ... predictions make the pass longer."""
        longer: NDArray[np.float64] = self.passes[self.size.num_rows + 1 :] - self.passes[self.size.num_rows]
        return longer


@dataclass(frozen=True, slots=True)
class BestLengths:
    """The best numbers of predictions, with their expected results; they may be worse than no predictions."""

    lengths: list[int]
    speedup: float  # the mean of the sequences' tokens per second, over that of the step without predictions
    own_speedups: list[float]  # of each sequence
    wait: float  # seconds until the predictions have arrived


def most_tokens_per_second(step: StepEstimate) -> BestLengths:
    """Maximise the geometric mean of the expected tokens per second of n sequences and of the others in the pass:

              ( Π_i (1 + Σ_j chance_ij) ) ^ (1 / (n + others))
        ─────────────────────────────────────────────────────────────
           pass(rows + Σ k_i) + wait(longest run) + Σ_i reading_i · (1 + Σ_j chance_ij)

    This is proportional fairness (Kelly 1997) for goodput (SmartSpec, Liu et al., arXiv 2406.14066): the sum of the
    rates would let one stream with good predictions slow down the others. Predictions are added in the order of the
    share by which a sequence's tokens grow, and all numbers are compared. All chances of one sequence must decrease.

    Rows of prompts count only in the time that predictions add to the pass.
    """
    count, num_positions = step.chances.shape
    plain, num_sequences = step.plain, count + step.size.num_others
    is_allowed = np.arange(num_positions) < step.most[:, None]
    gains = step.chances / (1 + step.chances.cumsum(axis=1) - step.chances)  # relative, of each prediction
    room = min(int(is_allowed.sum()), step.size.spare_rows)
    order = np.argsort(-np.where(is_allowed, gains, -1.0).ravel(), kind="stable")[:room]
    if not len(order):
        return BestLengths([0] * count, 1.0, [1.0] * count, 0.0)
    sequence, position = np.divmod(order, num_positions)
    chances, begins = step.chances.ravel()[order], position == 0
    speedups = np.exp(np.log1p(gains.ravel()[order]).cumsum() / num_sequences)  # in tokens per step
    waits = np.maximum.accumulate(step.times.waits(num_positions).ravel()[order])
    waits *= 1 + step.times.growth * (begins.cumsum() - 1)
    seconds = plain + step.longer[: len(order)] + waits
    reading = (step.reading[sequence] * (begins + chances)).cumsum()  # for as many tokens as it gets
    speedups *= plain / (seconds + (step.wait_price - 1) * waits + reading)
    for index in step.protected:
        own = 1 + (chances * (sequence == index)).cumsum()
        speedups[own * plain < seconds] = 0.0
    best = int(speedups.argmax())
    lengths = np.bincount(sequence[: best + 1], minlength=count).tolist()
    tokens = 1 + np.bincount(sequence[: best + 1], chances[: best + 1], count)
    return BestLengths(lengths, float(speedups[best]), (tokens * plain / seconds[best]).tolist(), float(waits[best]))
