"""Admission: how many sequences, or calls of another kind, are served or wait at once."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from services.service.errors import OverloadedError

_RETRY_SECONDS = 1


class Admission:
    """Counts the sequences in flight, refuses those beyond its capacity, and knows when there are none."""

    def __init__(self, capacity: int, max_per_connection: int | None = None) -> None:
        """No connection gets more places than `max_per_connection`, by default all."""
        self._capacity = capacity
        self._max_per_connection = capacity if max_per_connection is None else max_per_connection
        self._in_flight = 0
        self._of_connection: Counter[str] = Counter()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def in_flight(self) -> int:
        """How many are served or wait."""
        return self._in_flight

    def resize(self, capacity: int, max_per_connection: int) -> None:
        """Let in more or fewer from now on; those that are in stay."""
        self._capacity, self._max_per_connection = capacity, max_per_connection

    @contextlib.contextmanager
    def admit(self, count: int, connection: str) -> Iterator[None]:
        """Let so many more in for as long as the context lasts; raises OverloadedError where they are too many."""
        if self._in_flight + count > self._capacity:
            raise OverloadedError(f"{self._in_flight} requests", retry_seconds=_RETRY_SECONDS)
        if (held := self._of_connection[connection]) + count > self._max_per_connection:
            raise OverloadedError(f"{held} requests of this connection", retry_seconds=_RETRY_SECONDS)
        self._take(count, connection)
        try:
            yield
        finally:
            self._take(-count, connection)

    def _take(self, count: int, connection: str) -> None:
        self._in_flight += count
        self._of_connection[connection] += count
        if not self._of_connection[connection]:
            del self._of_connection[connection]
        if self._in_flight:
            self._is_idle.clear()
        else:
            self._is_idle.set()

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait that long at most for those in flight to end, and say whether they did."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), seconds)
        return self._is_idle.is_set()
