"""EngineLoop: one thread for all model state; it sleeps without work and leaves no caller waiting."""

import math
import threading
import time
from functools import partial

import pytest

from services.engine.loop import EngineLoop

pytestmark = pytest.mark.timeout(60)


class Countdown:
    """A worker that has a number of steps to do, and breaks in the given step."""

    def __init__(self, num_steps: int = 0, broken_step: int | None = None) -> None:
        self.num_left = num_steps
        self.broken_step = broken_step
        self.is_idle = threading.Event()
        self.history: list[tuple[str, str]] = []  # what happened, and on which thread

    def note(self, what: str) -> None:
        self.history.append((what, threading.current_thread().name))

    def step(self) -> bool:
        if self.num_left == 0:
            self.is_idle.set()
            return False
        if self.num_left == self.broken_step:
            raise ArithmeticError("broken on purpose")
        self.num_left -= 1
        self.note("step")
        return True

    def abandon(self, message: str) -> None:
        self.note(message)

    def happened(self) -> list[str]:
        return [what for what, _ in self.history]


class Gated(Countdown):
    """A worker whose step lasts until it may go on."""

    def __init__(self) -> None:
        super().__init__(num_steps=1)
        self.is_busy, self.may_go_on = threading.Event(), threading.Event()

    def step(self) -> bool:
        self.is_busy.set()
        self.may_go_on.wait()
        return super().step()


def start(worker: Countdown) -> EngineLoop:
    loop = EngineLoop(worker, on_failure=lambda: worker.note("on_failure"))
    loop.start()
    return loop


def run(loop: EngineLoop, command=lambda: None) -> None:
    """Have the loop run a command and return when it has."""
    done = threading.Event()
    loop.post(lambda: (command(), done.set()))
    done.wait()


def wait_until_told(worker: Countdown, *, after: str) -> None:
    """Wait until the failure has been reported once more after something happened."""
    while "the engine has failed" not in "".join(worker.happened()).partition(after)[2]:
        time.sleep(0.001)


def test_all_steps_and_commands_run_on_its_own_thread():
    worker = Countdown(num_steps=3)
    loop = start(worker)
    worker.is_idle.wait()
    run(loop, lambda: worker.note("command"))
    loop.stop("bye")
    own, caller = "engine", threading.current_thread().name
    assert worker.history == [*[("step", own)] * 3, ("command", own), ("bye", caller)]


def test_commands_from_many_threads_each_run_once_and_in_order():
    worker = Countdown(num_steps=200)
    loop = start(worker)
    ran: list[tuple[int, int]] = []

    def post_all(thread: int) -> None:
        for number in range(100):
            loop.post(partial(ran.append, (thread, number)))

    threads = [threading.Thread(target=post_all, args=[thread]) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(loop)
    loop.stop()
    for thread in range(4):
        assert [number for of, number in ran if of == thread] == list(range(100))
    assert len(ran) == 400


def test_a_sleeping_loop_does_the_work_that_a_command_brings():
    worker = Countdown()
    loop = start(worker)
    worker.is_idle.wait()
    worker.is_idle.clear()
    loop.post(lambda: setattr(worker, "num_left", 2))
    worker.is_idle.wait()
    loop.stop("bye")
    assert worker.happened() == ["step", "step", "bye"]


def test_a_woken_loop_looks_for_work():
    worker = Countdown()
    loop = start(worker)
    worker.is_idle.wait()
    worker.is_idle.clear()
    worker.num_left = 1
    loop.wake()
    worker.is_idle.wait()
    loop.stop("bye")
    assert worker.happened() == ["step", "bye"]


def test_a_question_is_answered_on_its_own_thread():
    loop = start(Countdown())
    assert loop.ask(lambda: threading.current_thread().name).result() == "engine"
    with pytest.raises(ZeroDivisionError):
        loop.ask(lambda: 1 // 0).result()
    assert loop.ask(lambda: 7).result() == 7  # it lives
    loop.stop()


def test_a_question_that_nobody_waits_for_is_dropped():
    """Such as one of a call that is cancelled while a step is under way."""
    worker = Gated()
    loop = start(worker)
    worker.is_busy.wait()
    asked: list[int] = []
    assert loop.ask(lambda: asked.append(1)).cancel()
    worker.may_go_on.set()
    assert loop.ask(lambda: 7).result() == 7
    assert asked == []
    loop.stop("bye")
    assert worker.happened()[-1] == "bye"


def test_the_pulse_distinguishes_a_step_from_sleep():
    worker = Gated()
    loop = start(worker)
    worker.is_busy.wait()
    at_step = loop.pulse
    assert (at_step.is_asleep, loop.pulse.turn) == (False, at_step.turn)
    worker.may_go_on.set()
    worker.is_idle.wait()
    while not loop.pulse.is_asleep:
        time.sleep(0.001)
    assert loop.pulse.turn > at_step.turn
    assert loop.pulse.usual_seconds > 0
    loop.stop()


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.05])
def test_a_sleeping_loop_looks_for_work_when_something_expires(seconds):
    worker = Countdown()
    loop = EngineLoop(worker, on_failure=lambda: None, next_expiry=lambda: time.monotonic() + seconds)
    loop.start()
    for _ in range(3):
        worker.num_left = 1  # which no call reports to the loop
        while worker.num_left:
            time.sleep(0.001)
    loop.stop("bye")
    assert worker.happened() == ["step", "step", "step", "bye"]


@pytest.mark.parametrize("expiry", [math.inf, 1e300, 3e11, 1e9])
def test_a_loop_asleep_until_a_far_expiry_can_be_stopped(expiry):
    worker = Countdown()
    loop = EngineLoop(worker, on_failure=lambda: worker.note("failed"), next_expiry=lambda: expiry)
    loop.start()
    worker.is_idle.wait()
    loop.stop("bye")
    assert worker.happened() == ["bye"]


@pytest.mark.parametrize("num_steps", [0, 1 << 60])
def test_a_loop_can_be_stopped_asleep_or_busy(num_steps):
    threads_before = set(threading.enumerate())
    worker = Countdown(num_steps)
    loop = start(worker)
    if num_steps == 0:
        worker.is_idle.wait()
    loop.stop("bye")
    assert worker.happened().count("bye") == 1
    assert worker.happened()[-1] == "bye"
    assert set(threading.enumerate()) <= threads_before


@pytest.mark.parametrize("broken_step", [None, 1])
def test_a_loop_that_is_stopped_among_its_commands_ends(broken_step):
    """The command that would end its sleep runs in the turn before."""
    worker = Countdown(num_steps=1, broken_step=broken_step)
    loop = start(worker)
    if broken_step is None:
        worker.is_idle.wait()
    else:
        wait_until_told(worker, after="on_failure")
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go_on.wait()

    loop.post(partial(loop.post, hold))  # the first one ends the sleep, so that the turn begins with the second
    is_held.wait()
    stopper = threading.Thread(target=loop.stop)
    stopper.start()
    while not (loop._stopping and loop._commands.qsize()):
        time.sleep(0.001)
    may_go_on.set()
    stopper.join()
    assert worker.happened()[-1] == "the server is shutting down"


def test_a_command_posted_with_the_stop_runs_before_the_abandon():
    """Otherwise the consumer of a sequence that it adds would wait for ever."""
    worker = Gated()
    loop = start(worker)
    worker.is_busy.wait()
    stopper = threading.Thread(target=loop.stop, args=["bye"])
    stopper.start()
    while not loop._stopping:
        time.sleep(0.001)
    loop.post(lambda: worker.note("late"))
    worker.may_go_on.set()
    stopper.join()
    assert worker.happened() == ["step", "late", "bye"]


@pytest.mark.parametrize("culprit", ["step", "command"])
def test_a_failure_is_reported_to_present_and_later_callers(culprit, caplog):
    worker = Countdown(num_steps=5, broken_step=2 if culprit == "step" else None)
    loop = start(worker)
    if culprit == "command":
        worker.is_idle.wait()
        loop.post(lambda: 1 // 0)
    wait_until_told(worker, after="on_failure")
    run(loop, lambda: worker.note("latecomer"))
    wait_until_told(worker, after="latecomer")
    loop.stop("bye")
    happened = worker.happened()
    assert happened.count("on_failure") == 1
    assert happened.index("on_failure") < happened.index("the engine has failed")
    assert happened.count("step") == (3 if culprit == "step" else 5)  # none after the failure
    assert happened[-1] == "bye"
    assert {thread for what, thread in worker.history if what != "bye"} == {"engine"}
    assert ("broken on purpose" if culprit == "step" else "ZeroDivisionError") in caplog.text


def test_a_loop_can_be_stopped_twice():
    worker = Countdown()
    loop = start(worker)
    loop.stop("bye")
    loop.stop("bye again")
    assert worker.happened() == ["bye", "bye again"]
