"""ReaderTurns: lets the readers of event loops take turns, so that other work does not wait for all of them."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

_CALLS_IN_TURN = 4  # in one turn of an event loop; each lets a reader write a message


class ReaderTurns:
    """An event loop makes a few of the calls that wait in each of its turns.

    While more wait, it may rest after each turn for as long as it has worked, which leaves half of the GIL's time to
    other threads. What arrives meanwhile is merged in the streams: the more there is to write, the more tokens are in
    a message.
    """

    def __init__(self, *, rests: bool, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` returns the seconds that the calling thread has worked."""
        self._rests, self._clock = rests, clock
        self._due: dict[asyncio.AbstractEventLoop, deque[Callable[[], object]]] = {}

    def take(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        """Let `loop`, on which this runs, make a call after those that already wait."""
        if loop not in self._due:
            self._due[loop] = deque()
            loop.call_soon(self._make_some, loop)
        self._due[loop].append(call)

    def _make_some(self, loop: asyncio.AbstractEventLoop) -> None:
        due, began = self._due[loop], self._clock()
        try:
            for _ in range(min(_CALLS_IN_TURN, len(due))):
                due.popleft()()
        finally:  # a call that fails must not keep the others waiting
            loop.call_soon(self._go_on, loop, began)  # after the readers that were woken

    def _go_on(self, loop: asyncio.AbstractEventLoop, began: float) -> None:
        if not self._due[loop]:
            del self._due[loop]
        elif self._rests:
            loop.call_later(self._clock() - began, self._make_some, loop)
        else:
            self._make_some(loop)
