"""The equation of the policy: the numbers of predictions with the most expected tokens per second."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.target.speculation.predictors.prediction_times import PredictionTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """All that is known about a step over some sequences before it. Times are in seconds."""

    chances: NDArray[np.float64]
    """The probability that each prediction is there and is accepted, [sequences, positions]."""

    offered: NDArray[np.float64]
    """The probability that each prediction is there, [positions]."""

    most: NDArray[np.int64]
    """The most predictions for each sequence, [sequences]."""

    passes: NDArray[np.float64]
    """The time of a pass of 0, 1, ... rows."""

    num_rows: int
    """The rows of the pass without predictions."""

    num_others: int
    """Further sequences in the pass, which it gives a token each or brings nearer to one."""

    times: PredictionTimes

    readings: NDArray[np.float64]
    """The draft's time to read each sequence, [sequences]."""

    horizons: NDArray[np.int64]
    """The tokens over which that time is spread, [sequences]."""

    wait_price: float = 1.0
    """The seconds that a second of waiting must save."""

    reading_price: float = 1.0
    """The seconds that a second of reading must save."""

    protected: NDArray[np.int64]
    """The indices of the sequences that the step may not slow down."""


@dataclass(frozen=True, slots=True)
class BestLengths:
    """The best numbers of predictions, with their expected results; they may be worse than no predictions."""

    lengths: list[int]

    speedup: float
    """Tokens per second, over those of the step without predictions."""

    wait: float
    """Seconds until the predictions have arrived."""


def most_tokens_per_second(step: StepEstimate) -> BestLengths:
    """Maximise goodput (SmartSpec, Liu et al., arXiv 2406.14066) over the lengths of all sequences together:

                     others + n + Σ_i Σ_j chance_ij
        ───────────────────────────────────────────────────────────────
        pass(rows + Σ offered) + wait(longest run) + Σ_i reading_i spread

    Predictions are added where a sequence's own expected tokens grow by the largest share (proportional fairness, Kelly
    1997), and all totals are compared. All chances of one sequence must decrease.
    """
    count, num_positions = step.chances.shape
    plain_tokens = count + step.num_others
    plain = float(step.passes[step.num_rows])
    is_allowed = np.arange(num_positions) < step.most[:, None]
    gains = step.chances / (1 + step.chances.cumsum(axis=1) - step.chances)  # relative, of each prediction
    room = min(int(is_allowed.sum()), len(step.passes) - 1 - step.num_rows)
    order = np.argsort(-np.where(is_allowed, gains, -1.0).ravel(), kind="stable")[: max(0, room)]
    sequence, position = np.divmod(order, num_positions)
    begins = position == 0
    tokens = plain_tokens + step.chances.ravel()[order].cumsum()
    rows = step.num_rows + np.ceil(step.offered[position].cumsum()).astype(np.int64)
    waits = np.maximum.accumulate(step.times.waits(step.offered.cumsum()).ravel()[order])
    waits *= 1 + step.times.growth * (begins.cumsum() - 1)
    now = step.passes[rows] + waits
    spread = (begins * (step.readings / step.horizons)[sequence]).cumsum() * tokens / plain_tokens * step.reading_price
    speedups = tokens / plain_tokens * plain / (now + (step.wait_price - 1) * waits + spread)
    for index in step.protected:
        own = 1 + (step.chances.ravel()[order] * (sequence == index)).cumsum()
        speedups[own * plain < now] = 0.0
    if not len(order):
        return BestLengths([0] * count, 1.0, 0.0)
    best = int(speedups.argmax())
    lengths = np.bincount(sequence[: best + 1], minlength=count).tolist()
    return BestLengths(lengths, float(speedups[best]), float(waits[best]))
