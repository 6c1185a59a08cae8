"""DraftPace: how long a draft takes to answer, by the number of predictions asked."""


class DraftPace:
    """Fits a straight line to the latest answers: a delay, and a time for each prediction; in seconds."""

    _MEMORY = 0.95  # of what was seen before, at each answer
    _SPREAD = 0.05  # of the numbers of predictions, below which they say nothing of the slope

    def __init__(self) -> None:
        self._weight = 0.0
        self._count = self._seconds = self._count_count = self._count_seconds = 0.0  # decayed sums

    @property
    def is_known(self) -> bool:
        """Whether there has been an answer."""
        return self._weight > 0

    def observe(self, count: int, seconds: float) -> None:
        """So many predictions were there so long after they had been asked for."""
        self._weight = self._weight * self._MEMORY + 1
        self._count = self._count * self._MEMORY + count
        self._seconds = self._seconds * self._MEMORY + seconds
        self._count_count = self._count_count * self._MEMORY + count * count
        self._count_seconds = self._count_seconds * self._MEMORY + count * seconds

    def seconds(self, count: int) -> float:
        """How long so many predictions are expected to take; 0 before the first answer."""
        if not self._weight:
            return 0.0
        mean_count, mean_seconds = self._count / self._weight, self._seconds / self._weight
        variance = self._count_count / self._weight - mean_count**2
        covariance = self._count_seconds / self._weight - mean_count * mean_seconds
        steepest = mean_seconds / mean_count  # as if there were no delay
        slope = steepest if variance < self._SPREAD else max(0.0, min(steepest, covariance / variance))
        return max(0.0, mean_seconds + slope * (count - mean_count))
