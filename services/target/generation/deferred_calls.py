"""DeferredCalls: collects calls to event loops during a step, and makes them together."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from services.target.generation.reader_turns import ReaderTurns


class DeferredCalls:
    """Readers that are woken during a step contend for the GIL with the engine thread, which then waits for them.

    So their calls are collected until the engine thread is about to release the GIL, and then go to their event loops
    together. A thread of their own delivers them, since waking an event loop is a system call, which releases the GIL.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """`clock` returns the seconds that the calling thread has worked."""
        self._turns = ReaderTurns(rests=True, clock=clock)
        self._calls: deque[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = deque()
        self._flushes: SimpleQueue[bool] = SimpleQueue()  # False: the last one
        self._thread = threading.Thread(target=self._deliver, name="deferred-calls", daemon=True)
        self._thread.start()

    def add(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        """Collect a call for `loop` to make; any thread may do this if it flushes afterwards."""
        self._calls.append((loop, call))

    def take_turn(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        """Let `loop`, on which this runs, make a call after those that already wait."""
        self._turns.take(loop, call)

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
            self._turns.take(loop, call)
