"""DraftLatency: how long a draft takes to answer, by the numbers of predictions and of sequences."""

import math

from services.target.speculation.policy.policy_config import PolicyConfig


class DraftLatency:
    """Fits a line to the latest answers: a delay, and a time for each prediction; in seconds. For each further sequence
    at the same time an answer takes longer by a share, which is measured too.

    Answers with equal numbers of predictions do not determine the slope, which then stays as it was.
    """

    def __init__(self, config: PolicyConfig, *, is_flat: bool = False) -> None:
        """If it is flat, all predictions of an answer are taken to come at once, until answers show otherwise."""
        self._config = config
        self._weight = 0.0
        self._count = self._seconds = self._count_count = self._count_seconds = 0.0  # decayed sums
        self._slope: float | None = 0.0 if is_flat else None
        self.growth = config.draft_growth
        """The share by which an answer takes longer for each further sequence at the same time."""

    @property
    def is_known(self) -> bool:
        """Whether there has been an answer."""
        return self._weight > 0

    def observe(self, count: int, seconds: float, *, num_sequences: int = 1) -> None:
        """Learn that `count` predictions for each of `num_sequences` sequences took `seconds` from the request."""
        if num_sequences > 1 and (alone := self.seconds(count)):
            share = (seconds / alone - 1) / (num_sequences - 1)
            self.growth = max(0.0, self.growth + self._config.weight * (min(share, 1.0) - self.growth))
        alone = seconds / self.slowdown(num_sequences)
        if self._weight > 1:  # after two answers
            alone = min(alone, self.seconds(count) * math.exp(self._config.max_error))
        self._observe_alone(count, alone)

    def seconds(self, count: float) -> float:
        """The expected time of `count` predictions for one sequence; 0 before the first answer."""
        if not self._weight:
            return 0.0
        mean_count, mean_seconds = self._count / self._weight, self._seconds / self._weight
        return max(0.0, mean_seconds + self.each * (count - mean_count))

    @property
    def each(self) -> float:
        """The expected time of each prediction; 0 before the first answer."""
        if not self._weight:
            return 0.0
        steepest = self._seconds / self._count  # as if there were no delay
        return steepest if self._slope is None else max(0.0, min(steepest, self._slope))

    def slowdown(self, num_sequences: int) -> float:
        """How many times as long predictions for `num_sequences` sequences at once take as for one."""
        return 1 + self.growth * (num_sequences - 1)

    def _observe_alone(self, count: int, seconds: float) -> None:
        memory = 1 - self._config.weight
        self._weight = self._weight * memory + 1
        self._count = self._count * memory + count
        self._seconds = self._seconds * memory + seconds
        self._count_count = self._count_count * memory + count * count
        self._count_seconds = self._count_seconds * memory + count * seconds
        mean_count = self._count / self._weight
        variance = self._count_count / self._weight - mean_count**2
        if variance >= self._config.slope_spread:
            self._slope = (self._count_seconds - mean_count * self._seconds) / self._weight / variance
