"""DeferredCalls: collects calls to event loops during a step, and makes them together."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

_CALLS_IN_TURN = 4  # calls in one turn of an event loop; each lets a reader write a message


class DeferredCalls:
    """Readers that are woken during a step contend for the GIL with the engine thread, which then waits for them.

    So their calls are collected until the engine thread is about to release the GIL, and then go to their event loops
    together. A thread of their own delivers them, since waking an event loop is a system call, which releases the GIL.

    An event loop makes a few of these calls in each turn, so that its other work does not wait for all readers. While
    more wait, it rests after each turn for as long as it has worked, which leaves the engine half of the GIL's time;
    what arrives meanwhile is merged in the streams: the more there is to write, the more tokens are in a message.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` returns the seconds that the calling thread has worked."""
        self._clock = clock
        self._calls: deque[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = deque()
        self._due: dict[asyncio.AbstractEventLoop, deque[Callable[[], object]]] = {}
        self._flushes: SimpleQueue[bool] = SimpleQueue()  # False: the last one
        self._thread = threading.Thread(target=self._deliver, name="deferred-calls", daemon=True)
        self._thread.start()

    def add(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        """Collect a call for `loop` to make; any thread may do this if it flushes afterwards."""
        self._calls.append((loop, call))

    def flush(self) -> None:
        """Hand over all collected calls."""
        if self._calls:
            self._flushes.put(True)

    def close(self) -> None:
        """Hand over the rest, and end the thread."""
        self.flush()
        self._flushes.put(False)
        self._thread.join()

    def _deliver(self) -> None:
        while self._flushes.get():
            by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}
            while self._calls:
                loop, call = self._calls.popleft()
                by_loop.setdefault(loop, []).append(call)
            for loop, calls in by_loop.items():
                with suppress(RuntimeError):  # the loop is closed, so that there are no readers any more
                    loop.call_soon_threadsafe(self._take_in, loop, calls)

    def _take_in(self, loop: asyncio.AbstractEventLoop, calls: list[Callable[[], object]]) -> None:
        for call in calls:
            self.take_turn(loop, call)

    def take_turn(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
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
            loop.call_soon(self._rest, loop, began)  # after the readers that were woken

    def _rest(self, loop: asyncio.AbstractEventLoop, began: float) -> None:
        if self._due[loop]:
            loop.call_later(self._clock() - began, self._make_some, loop)
        else:
            del self._due[loop]
