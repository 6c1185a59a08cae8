"""Watchdog: a step that does not end is noticed, a slow model and a process that was stopped are not taken for one."""

import asyncio
import threading
import time as real_time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from services.engine.loop import Pulse
from services.service.life import watchdog as life_watchdog
from services.service.life.watchdog import Watchdog

FLOOR = 60.0


class Time:
    """Passes only while somebody sleeps in the thread of the test; services of other tests, which have theirs, keep the
    real one.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.stops_for = 0.0  # this once, as by SIGSTOP
        self._thread = threading.get_ident()

    def monotonic(self) -> float:
        return self.now if threading.get_ident() == self._thread else real_time.monotonic()

    async def sleep(self, seconds: float) -> None:
        if threading.get_ident() != self._thread:
            await asyncio.sleep(seconds)
            return
        self.now += seconds + self.stops_for
        self.stops_for = 0.0
        await asyncio.sleep(0)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(life_watchdog, "time", time)
    monkeypatch.setattr(life_watchdog, "asyncio", SimpleNamespace(sleep=time.sleep))  # other threads sleep as ever
    return time


class Engine:
    """What is at a step, or not."""

    def __init__(self, time: Time, *, usual: float = 0.01) -> None:
        self.pulse = Pulse(1, False, usual)
        self.changes: list[tuple[bool, float]] = []
        self.watchdog = Watchdog(lambda: self.pulse, floor=FLOOR)
        self._time, self._began = time, time.now

    async def note(self) -> None:
        self.changes.append((self.watchdog.is_late, self._time.now - self._began))

    async def until(self, seconds: float, act: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Watch, and act after so many seconds; returns what is left of the watch."""
        watch = asyncio.ensure_future(self.watchdog.watch(self.note))
        while self._time.now - self._began < seconds and not watch.done():
            await asyncio.sleep(0)
        act()
        return watch


async def test_a_step_that_never_ends_is_late_and_then_hung(time: Time) -> None:
    engine = Engine(time)
    await engine.watchdog.watch(engine.note)
    ((is_late, seconds),) = engine.changes
    assert is_late
    assert FLOOR <= seconds < FLOOR + 3
    assert 2 * FLOOR <= time.now - 100.0 < 2 * FLOOR + 3


async def test_a_late_step_that_ends_is_forgiven(time: Time) -> None:
    engine = Engine(time)
    watch = await engine.until(1.5 * FLOOR, lambda: setattr(engine, "pulse", Pulse(2, True, 0.01)))
    for _ in range(500):
        await asyncio.sleep(0)
    assert [is_late for is_late, _ in engine.changes] == [True, False]
    assert not watch.done()
    watch.cancel()


async def test_an_engine_without_work_is_never_late(time: Time) -> None:
    engine = Engine(time)
    engine.pulse = Pulse(1, True, 0.01)
    watch = await engine.until(100 * FLOOR, lambda: None)
    assert engine.changes == []
    watch.cancel()


async def test_a_slow_model_has_more_time(time: Time) -> None:
    engine = Engine(time, usual=2.0)
    await engine.watchdog.watch(engine.note)
    ((_, seconds),) = engine.changes
    assert 200 <= seconds < 203


async def test_time_in_which_the_process_was_stopped_does_not_count(time: Time) -> None:
    engine = Engine(time)
    watch = await engine.until(10, lambda: setattr(time, "stops_for", 50 * FLOOR))
    while time.now < 100 + 50 * FLOOR:
        await asyncio.sleep(0)
    assert engine.changes == []
    watch.cancel()
