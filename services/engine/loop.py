"""EngineLoop: the one thread that owns model state."""

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol

logger = logging.getLogger(__name__)

_LONGEST_SLEEP = 3600.0  # seconds; the queue refuses a timeout of many years


class Worker(Protocol):
    """What the loop drives; all of it runs on the loop's thread."""

    def step(self) -> bool:
        """Do one step of work; False if there was none."""

    def abandon(self, message: str) -> None:
        """Tell everyone who waits that no further step will come."""


def _never() -> float:
    return math.inf


class EngineLoop:
    """Runs a worker's steps on a thread of its own, and between steps the commands that other threads send."""

    def __init__(
        self, worker: Worker, *, on_failure: Callable[[], None], next_expiry: Callable[[], float] = _never
    ) -> None:
        """`on_failure` is called on the loop's thread after a step raised: the engine is dead then, and says so to
        all who wait and who come until it is stopped. `next_expiry` says, in seconds on the monotonic clock, until when
        it may sleep without work; it is called on the loop's thread.
        """
        self._worker = worker
        self._on_failure = on_failure
        self._next_expiry = next_expiry
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, message: str = "the server is shutting down") -> None:
        """Wait for the thread to end and abandon what is left; not for the loop's own thread to call."""
        self._stopping = True
        self.wake()
        self._thread.join()
        self._run_commands()
        self._worker.abandon(message)

    def post(self, command: Callable[[], None]) -> None:
        """Run a command on the loop's thread before the next step; any thread may call this."""
        self._commands.put(command)

    def wake(self) -> None:
        """Let the loop look for work again."""
        self.post(_nothing)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._run_commands()
                if not self._worker.step():
                    self._sleep(until=self._next_expiry())
        except Exception:
            logger.exception("the engine failed")
            self._on_failure()
            self._turn_away()

    def _turn_away(self) -> None:
        while not self._stopping:
            self._run_commands()
            self._worker.abandon("the engine has failed")
            self._sleep(until=math.inf)

    def _run_commands(self) -> None:
        while not self._commands.empty():
            self._commands.get()()

    def _sleep(self, until: float) -> None:
        timeout = None if until == math.inf else min(max(0.0, until - time.monotonic()), _LONGEST_SLEEP)
        with suppress(Empty):
            self._commands.get(timeout=timeout)()


def _nothing() -> None:
    pass
