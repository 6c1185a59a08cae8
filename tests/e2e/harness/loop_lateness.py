"""LoopLateness: how late an event loop starts its work, where its process is starved or busy."""

import asyncio
import time
from collections import deque

_TICK_SECONDS = 0.05
_NUM_KEPT = 2000


class LoopLateness:
    """The lateness of a reader's event loop, which is no stall of the writer."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._late: deque[tuple[float, float]] = deque(maxlen=_NUM_KEPT)  # when, and by how much
        self.most = 0.0
        """Seconds."""

    async def watch(self) -> None:
        """Look on until cancelled."""
        while True:
            self._began = time.monotonic()
            await asyncio.sleep(_TICK_SECONDS)
            late = self._pending()
            self.most = max(self.most, late)
            self._late.append((time.monotonic(), late))

    def over(self, seconds: float) -> float:
        """By how many of the last seconds it was late, those included by which it is late now."""
        since = time.monotonic() - seconds
        return self._pending() + sum(late for moment, late in self._late if moment >= since)

    def _pending(self) -> float:
        return max(0.0, time.monotonic() - self._began - _TICK_SECONDS)
