"""Rate: the growth of a count per second."""

import time
from collections.abc import Callable

_SECONDS = 5.0  # the least time over which it is measured


class Rate:
    """Reads the count when it is called, and compares it with an earlier reading."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._seen = self._seen_before = (time.monotonic(), count())

    def per_second(self) -> float:
        """Return the growth per second over the last seconds before this call."""
        now, count = time.monotonic(), self._count()
        if now - self._seen[0] >= _SECONDS:
            self._seen_before, self._seen = self._seen, (now, count)
        since, before = self._seen_before
        return (count - before) / max(now - since, _SECONDS)
