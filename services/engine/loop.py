"""EngineLoop: the single thread that owns the model's state."""

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

logger = logging.getLogger(__name__)

_LONGEST_SLEEP = 3600.0  # seconds; the queue refuses a timeout of many years
_STEP_WEIGHT = 0.05  # weight of a new measurement in the moving average
Answer = TypeVar("Answer")
_TURN, _IS_ASLEEP, _USUAL_SECONDS = range(3)


class Worker(Protocol):
    """The object that the loop drives; all its methods run on the loop's thread."""

    def step(self) -> bool:
        """Do one step of work; returns False if there was none."""

    def abandon(self, message: str) -> None:
        """Fail all requests with this message: there will be no further step."""


class PulseMemory(Protocol):
    """Where a loop writes its pulse: three numbers, which another process may read."""

    def __getitem__(self, place: int, /) -> float: ...

    def __setitem__(self, place: int, number: float, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Pulse:
    """The state of the loop's thread, for a watchdog on another thread."""

    turn: int  # the number of the current step
    is_asleep: bool  # it waits for work
    usual_seconds: float  # a moving average of the time of a step

    @classmethod
    def read(cls, memory: PulseMemory) -> "Pulse":
        """The pulse that a loop has written there."""
        return cls(int(memory[_TURN]), bool(memory[_IS_ASLEEP]), memory[_USUAL_SECONDS])


def _never() -> float:
    return math.inf


class EngineLoop:
    """Runs a worker's steps on a thread of its own, and the commands of other threads between steps."""

    def __init__(
        self,
        worker: Worker,
        *,
        on_failure: Callable[[], None],
        next_expiry: Callable[[], float] = _never,
        pulse_memory: PulseMemory | None = None,
    ) -> None:
        """`on_failure` is called on the loop's thread after a step raised: the engine is dead then, and all requests,
        also later ones, fail until it is stopped. `next_expiry` returns the time, in seconds on the monotonic clock,
        until which the loop may sleep without work; it is called on the loop's thread.
        """
        self._worker = worker
        self._on_failure = on_failure
        self._next_expiry = next_expiry
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = False
        self._pulse: PulseMemory = [0.0] * 3 if pulse_memory is None else pulse_memory
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, message: str = "the server is shutting down") -> None:
        """Wait for the thread to end, and fail the remaining requests; must not be called on the loop's own thread."""
        self._stopping = True
        self.wake()
        self._thread.join()
        self._run_commands()
        self._worker.abandon(message)

    def post(self, command: Callable[[], None]) -> None:
        """Run a command on the loop's thread before the next step; any thread may call this."""
        self._commands.put(command)

    def ask(self, question: Callable[[], Answer]) -> "Future[Answer]":
        """Run a function on the loop's thread before the next step, and return a future of its result.

        Any thread may call this.
        """
        future: Future[Answer] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return  # nobody waits any more
            try:
                future.set_result(question())
            except Exception as error:
                future.set_exception(error)

        self.post(answer)
        return future

    def wake(self) -> None:
        """Make a sleeping loop look for work again."""
        self.post(_nothing)

    @property
    def pulse(self) -> Pulse:
        """The state of the thread; any thread may read it."""
        return Pulse.read(self._pulse)

    def _run(self) -> None:
        _name_this_thread(self._thread.name)
        try:
            while self._goes_on():
                began = time.monotonic()
                if self._worker.step():
                    self._pulse[_USUAL_SECONDS] += _STEP_WEIGHT * (
                        time.monotonic() - began - self._pulse[_USUAL_SECONDS]
                    )
                else:
                    self._sleep(until=self._next_expiry())
            self._pulse[_IS_ASLEEP] = True  # forever
        except Exception:
            logger.exception("the engine failed")
            self._on_failure()
            self._turn_away()

    def _turn_away(self) -> None:
        while self._goes_on():
            self._worker.abandon("the engine has failed")
            self._sleep(until=math.inf)

    def _goes_on(self) -> bool:
        """Begin a turn with its commands; returns whether the loop is not to stop, which it asks after them: one of
        them may be the call that would have ended its sleep.
        """
        self._pulse[_TURN] += 1
        self._run_commands()
        return not self._stopping

    def _run_commands(self) -> None:
        while not self._commands.empty():
            self._commands.get()()

    def _sleep(self, until: float) -> None:
        timeout = None if until == math.inf else min(max(0.0, until - time.monotonic()), _LONGEST_SLEEP)
        self._pulse[_IS_ASLEEP] = True
        try:
            command = self._commands.get(timeout=timeout)
        except Empty:
            command = _nothing
        self._pulse[_TURN] += 1
        self._pulse[_IS_ASLEEP] = False
        command()


def _name_this_thread(name: str) -> None:
    """Let tools such as `top -H` show the thread's name, where the system can."""
    with suppress(OSError):
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)


def _nothing() -> None:
    pass
