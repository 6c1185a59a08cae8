"""Readers on an event loop are woken when the engine flushes, a few in each of the loop's turns."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from services.target.generation.deferred_calls import DeferredCalls


def test_calls_run_in_order_after_a_flush_and_not_before():
    async def run() -> list[int]:
        deferred_calls = DeferredCalls()
        called: list[int] = []
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in range(3):
            deferred_calls.add(loop, lambda number=number: called.append(number))  # type: ignore[misc]
        await asyncio.sleep(0.01)
        assert called == []
        deferred_calls.add(loop, done.set)
        deferred_calls.flush()
        await done.wait()
        deferred_calls.close()
        return called

    assert asyncio.run(run()) == [0, 1, 2]


def test_calls_left_over_are_made_at_close():
    async def run() -> None:
        deferred_calls = DeferredCalls()
        done = asyncio.Event()
        deferred_calls.add(asyncio.get_running_loop(), done.set)
        deferred_calls.close()
        await asyncio.wait_for(done.wait(), 10)

    asyncio.run(run())


def test_a_loop_that_is_closed_keeps_no_other_from_waking():
    closed = asyncio.new_event_loop()
    closed.close()

    async def run() -> None:
        deferred_calls = DeferredCalls()
        for _ in range(2):
            done = asyncio.Event()
            deferred_calls.add(closed, done.clear)
            deferred_calls.add(asyncio.get_running_loop(), done.set)
            deferred_calls.flush()
            await asyncio.wait_for(done.wait(), 10)
        deferred_calls.close()

    asyncio.run(run())


def test_no_call_is_lost_between_threads_that_add_and_flush():
    async def run() -> int:
        deferred_calls = DeferredCalls()
        loop = asyncio.get_running_loop()
        called: list[None] = []

        def work() -> None:
            for _ in range(500):
                deferred_calls.add(loop, lambda: called.append(None))
                deferred_calls.flush()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(deferred_calls.close)
        done = asyncio.Event()
        deferred_calls.take_turn(loop, done.set)
        await asyncio.wait_for(done.wait(), 60)
        return len(called)

    assert asyncio.run(run()) == 2000


def test_many_calls_leave_the_event_loop_turns_for_others():
    async def run() -> list[int]:
        deferred_calls = DeferredCalls()
        loop = asyncio.get_running_loop()
        called: list[int] = []
        turn = 0
        for _ in range(100):
            deferred_calls.add(loop, lambda: called.append(turn))
        deferred_calls.flush()
        while len(called) < 100:
            turn += 1
            await asyncio.sleep(0)
        await asyncio.to_thread(deferred_calls.close)
        return called

    assert max(Counter(asyncio.run(run())).values()) <= 8


def test_a_loop_with_more_to_do_rests_as_long_as_it_worked(monkeypatch: pytest.MonkeyPatch):
    async def run() -> list[float]:
        worked = 0.0
        deferred_calls = DeferredCalls(lambda: worked)
        loop = asyncio.get_running_loop()
        rests: list[float] = []
        done = asyncio.Event()

        def work() -> None:
            nonlocal worked
            worked += 2.0

        def rest(seconds: float, call: Callable[..., object], *arguments: object) -> None:
            rests.append(seconds)
            loop.call_soon(call, *arguments)

        monkeypatch.setattr(loop, "call_later", rest)
        for _ in range(20):
            deferred_calls.take_turn(loop, work)
        deferred_calls.take_turn(loop, done.set)
        await done.wait()
        deferred_calls.close()
        return rests

    assert asyncio.run(run()) == [8.0] * 5
