"""Rate: how fast a count grows."""

import time
from collections.abc import Callable

_SECONDS = 5.0  # over which it is measured, at least


class Rate:
    """Looks at the count when it is asked, and remembers the looks before."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._seen = self._seen_before = (time.monotonic(), count())

    def per_second(self) -> float:
        """Over some seconds before this call."""
        now, count = time.monotonic(), self._count()
        if now - self._seen[0] >= _SECONDS:
            self._seen_before, self._seen = self._seen, (now, count)
        since, before = self._seen_before
        return (count - before) / max(now - since, _SECONDS)
