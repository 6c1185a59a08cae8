"""CallerLimit: a semaphore over all callers that each caller can hold only once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary


class CallerLimit:
    """A caller waits until its earlier turn has ended, and then for one of the places of all callers."""

    def __init__(self, most_at_once: int) -> None:
        self._places = asyncio.Semaphore(most_at_once)
        self._callers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # callers that are in `take`

    @contextlib.asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """Wait for a caller's turn, and hold it for as long as the context lasts."""
        lock = self._callers.setdefault(caller, asyncio.Lock())
        async with lock, self._places:
            yield
