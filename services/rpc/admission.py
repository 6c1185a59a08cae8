"""Admission: how many sequences are served or wait at once."""

import asyncio
import contextlib
from collections.abc import Iterator

from services.rpc.errors import OverloadedError

_RETRY_SECONDS = 1


class Admission:
    """Counts the sequences in flight, refuses those beyond its capacity, and knows when there are none."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_flight = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @contextlib.contextmanager
    def admit(self, count: int) -> Iterator[None]:
        """Let so many more in for as long as the context lasts; raises OverloadedError where they are too many."""
        if self._in_flight + count > self._capacity:
            raise OverloadedError(in_flight=self._in_flight, retry_seconds=_RETRY_SECONDS)
        self._in_flight += count
        if self._in_flight:
            self._is_idle.clear()
        try:
            yield
        finally:
            self._in_flight -= count
            if not self._in_flight:
                self._is_idle.set()

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait that long at most for those in flight to end, and say whether they did."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), seconds)
        return self._is_idle.is_set()
