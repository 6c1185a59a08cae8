"""Admission: how many requests are served or wait at once."""

import asyncio
import contextlib
from types import TracebackType

from services.rpc.errors import OverloadedError

_RETRY_SECONDS = 1


class Admission:
    """Counts the requests in flight, refuses those beyond its capacity, and knows when there are none."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_flight = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def __enter__(self) -> None:
        """Raises OverloadedError when as many requests are in flight as may be."""
        if self._in_flight >= self._capacity:
            raise OverloadedError(in_flight=self._in_flight, retry_seconds=_RETRY_SECONDS)
        self._in_flight += 1
        self._is_idle.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._is_idle.set()

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait that long at most for the requests in flight to end, and say whether they did."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), seconds)
        return self._is_idle.is_set()
