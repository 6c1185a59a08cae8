"""CallerLimit: at most so many do something at once, and each caller once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary


class CallerLimit:
    """A caller waits for the end of its own turn before, and then for a place among all callers."""

    def __init__(self, most_at_once: int) -> None:
        self._places = asyncio.Semaphore(most_at_once)
        self._callers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # those that wait or have a turn

    @contextlib.asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """A caller's turn, for as long as the context lasts."""
        lock = self._callers.setdefault(caller, asyncio.Lock())
        async with lock, self._places:
            yield
