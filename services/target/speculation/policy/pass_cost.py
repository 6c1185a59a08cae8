"""PassCost: the measured time of a pass by the number of its rows."""

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.target.speculation.policy.policy_config import PolicyConfig


class PassCost:
    """Learns from passes over decoding rows; more rows never take less time than fewer.

    Each measurement shifts the estimates of all sizes: as contexts grow, and as the machine's other load changes,
    passes of every size become slower or faster together.
    """

    def __init__(self, config: PolicyConfig, padded: Callable[[int], int] = int) -> None:
        """`padded` returns the rows that the device computes for a pass of so many: times rise in these stairs."""
        self._config, self._padded = config, padded
        self._logs: dict[int, float] = {}  # logarithms of seconds, by measured numbers of padded rows
        self._counts: dict[int, float] = {}  # of measurements, as far as they are remembered
        self._columns = np.array([], dtype=np.int64)  # the padded rows of 0, 1, ... rows
        self._table: NDArray[np.float64] | None = None

    def observe(self, num_rows: int, seconds: float) -> None:
        """Learn from a pass that took `seconds`."""
        rows, measured, config = self._padded(num_rows), math.log(max(seconds, 1e-9)), self._config
        if rows not in self._logs:
            self._logs[rows] = (measured + math.log(self.seconds(rows))) / 2 if self._logs else measured
        count = self._counts[rows] = min(self._counts.get(rows, 0) + 1, 1 / config.weight)
        error = max(-config.max_error, min(config.max_error, measured - self._logs[rows]))
        if count > 1:  # early errors may be those of the first guess
            weights = dict.fromkeys(self._logs, count * config.weight**2) | {rows: 1 / count}
            self._logs = {each: log + error * weights[each] for each, log in self._logs.items()}
        self._table = None

    def seconds(self, num_rows: int) -> float:
        """The expected time of a pass of `num_rows` rows; 0 before any measurement."""
        return float(self.table(num_rows)[num_rows])

    def table(self, most: int) -> NDArray[np.float64]:
        """The expected times of passes of 0, 1, ... rows, up to at least `most`; 0 before any measurement.

        They are interpolated between two measured sizes. Beyond the largest, they grow at the average rate so far.
        """
        if self._table is None or len(self._table) <= most:
            self._table = self._make_table(max(most, len(self._columns) - 1))
        return self._table

    def _make_table(self, most: int) -> NDArray[np.float64]:
        if len(self._columns) <= most:
            self._columns = np.array([self._padded(rows) for rows in range(most + 1)])
        if not self._logs:
            return np.zeros(most + 1)
        rows = sorted(self._logs)
        logs = _rising([self._logs[each] for each in rows], [self._counts[each] for each in rows])
        first, last = math.exp(logs[0]), math.exp(logs[-1])
        growth = (last - first) / (rows[-1] - rows[0]) if len(rows) > 1 else last * self._config.row_growth
        table: NDArray[np.float64] = np.exp(np.interp(self._columns, rows, logs))
        return table + growth * np.maximum(0, self._columns - rows[-1])


def _rising(values: Seq[float], weights: Seq[float]) -> list[float]:
    """The rising values that are nearest to these (pool adjacent violators, Ayer et al. 1955)."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of values
    for value, own in zip(values, weights, strict=True):
        mean, weight, count = value, own, 1
        while pools and pools[-1][0] > mean:
            before, its_weight, its_count = pools.pop()
            mean = (before * its_weight + mean * weight) / (its_weight + weight)
            weight, count = its_weight + weight, its_count + count
        pools.append((mean, weight, count))
    return [mean for mean, _, count in pools for _ in range(count)]
