"""PassCost: the measured time of a pass by the number of its rows."""

import math
from bisect import bisect_left, insort
from itertools import accumulate

from services.target.speculation.policy.policy_config import PassCostConfig
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS


class PassCost:
    """Learns from passes over decoding rows; more rows never take less time than fewer.

    Each measurement shifts the estimates of all sizes: as contexts grow, and as the machine's other load changes,
    passes of every size become slower or faster together.
    """

    def __init__(self, config: PassCostConfig) -> None:
        self._config = config
        self._rows: list[int] = []  # the measured numbers of rows, in order
        self._logs: dict[int, float] = {}  # logarithms of seconds
        self._counts: dict[int, int] = {}
        self._floors: list[float] = []  # for each of `_rows`, the least logarithm of it and all larger ones

    def knows(self, num_rows: int) -> bool:
        """Whether passes of this size were measured often enough."""
        return self._counts.get(num_rows, 0) >= self._config.min_passes

    @property
    def reach(self) -> int:
        """The most rows whose time can be estimated: somewhat more than the largest measured pass."""
        if not self._rows:
            return 0
        return self._rows[-1] + int(self._config.reach * self._rows[-1]) + MOST_PREDICTIONS

    def observe(self, num_rows: int, seconds: float) -> None:
        """Learn from a pass that took `seconds`."""
        measured = math.log(max(seconds, 1e-9))
        count = self._counts[num_rows] = self._counts.get(num_rows, 0) + 1
        if count == 1:
            self._logs[num_rows] = (measured + self._log(num_rows)) / 2 if self._rows else measured
            insort(self._rows, num_rows)
        else:
            config = self._config
            error = max(-config.max_error, min(config.max_error, measured - self._logs[num_rows]))
            weight = max(config.weight, 1 / count)
            drift = config.drift if weight == config.weight else 0.0  # early errors may be those of the first guess
            for rows in self._rows:
                self._logs[rows] += error * (weight if rows == num_rows else drift)
        self._floors = [*accumulate((self._logs[rows] for rows in reversed(self._rows)), min)][::-1]

    def seconds(self, num_rows: float) -> float:
        """The time of a pass of `num_rows` rows, which may be an average; 0 before any measurement.

        It is interpolated between two measured sizes. Beyond the largest, it grows at the average rate between the
        smallest and the largest; if that is wrong, the pass that relies on it will measure it.
        """
        if not self._rows:
            return 0.0
        return math.exp(self._log(num_rows)) + self._growth() * max(0, num_rows - self._rows[-1])

    def _growth(self) -> float:
        """Seconds for each further row; 0 if only one size was measured."""
        num_more = self._rows[-1] - self._rows[0]
        return (math.exp(self._floors[-1]) - math.exp(self._floors[0])) / num_more if num_more else 0.0

    def _log(self, num_rows: float) -> float:
        right = bisect_left(self._rows, num_rows)
        if right == len(self._rows):
            return self._floors[-1]
        if right == 0 or self._rows[right] == num_rows:
            return self._floors[right]
        below, above = self._rows[right - 1], self._rows[right]
        share = (num_rows - below) / (above - below)
        return self._floors[right - 1] + share * (self._floors[right] - self._floors[right - 1])
