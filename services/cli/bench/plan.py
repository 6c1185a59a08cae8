"""The plan: the best rate that speculation could have on shared cores, from what was measured of its parts."""

from collections.abc import Mapping, Sequence

import numpy as np


def plan_rate(pass_seconds: Mapping[int, float], draft_step: float, by_position: Sequence[float]) -> float:
    """Tokens per second: the maximum over K of E(K) / (v(K+1)·T + K·d).

    `pass_seconds` is v(m)·T, the time of a pass by its number of rows (between two, a straight line), `draft_step` is
    d, and E(K) = 1 + the sum of the first K of `by_position`: how often the first i + 1 predictions of a pass are
    right.
    """
    rows = sorted(pass_seconds)
    times = [pass_seconds[number] for number in rows]

    def rate(num_predictions: int) -> float:
        expected = 1 + sum(by_position[:num_predictions])
        verifying = float(np.interp(num_predictions + 1, rows, times))
        return expected / (verifying + num_predictions * draft_step)

    return max(map(rate, range(len(by_position) + 1)))
