"""AbortableCalls: the running calls, by their callers and request ids."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Value = TypeVar("Value")


class CallAbortedError(Exception):
    """Another call of the same caller has aborted this one."""


class AbortableCall:
    """A call that can be ended while it waits for the engine, not while it writes, so that messages arrive whole."""

    def __init__(self) -> None:
        self._is_aborted = False
        self._waiting: asyncio.Timeout | None = None

    def abort(self) -> None:
        """End the call, if it is not ending already."""
        if self._is_aborted:
            return
        self._is_aborted = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def wait(self, begin: Callable[[], Awaitable[Value]]) -> Value:
        """The result of `begin`; if the call is aborted, that is cancelled, and CallAbortedError raised."""
        if self._is_aborted:
            raise CallAbortedError
        try:
            async with asyncio.timeout(None) as self._waiting:
                return await begin()
        except TimeoutError as error:
            if not self._is_aborted:
                raise
            raise CallAbortedError from error
        finally:
            self._waiting = None


class AbortableCalls:
    """For one event loop; a caller can abort only its own calls."""

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[str, str], list[AbortableCall]] = defaultdict(list)

    @contextmanager
    def begin(self, caller: str, name: str) -> Iterator[AbortableCall]:
        """A call that can be aborted until this context ends."""
        key, call = (caller, name), AbortableCall()
        self._calls[key].append(call)
        try:
            yield call
        finally:
            self._calls[key].remove(call)
            if not self._calls[key]:
                del self._calls[key]

    def has(self, caller: str, name: str) -> bool:
        """Whether a call of that caller and name is running."""
        return (caller, name) in self._calls

    def abort(self, caller: str, name: str) -> None:
        """Abort all calls of that caller and name, if there are any."""
        for call in self._calls.get((caller, name), ()):
            call.abort()

    def abort_all(self, caller: str) -> int:
        """Abort all calls of that caller, and return how many there are."""
        calls = [call for (owner, _), named in self._calls.items() if owner == caller for call in named]
        for call in calls:
            call.abort()
        return len(calls)
