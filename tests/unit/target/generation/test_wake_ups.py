"""Readers on an event loop are woken when the engine says so, and all of a step's at once."""

import asyncio
import threading

from services.target.generation.deferred_calls import WakeUps


def test_nothing_is_called_before_it_is_flushed_and_then_all_in_order():
    async def run() -> list[int]:
        wake_ups = WakeUps()
        called: list[int] = []
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in range(3):
            wake_ups.add(loop, lambda number=number: called.append(number))  # type: ignore[misc]
        await asyncio.sleep(0.01)
        assert called == []
        wake_ups.add(loop, done.set)
        wake_ups.flush()
        await done.wait()
        wake_ups.close()
        return called

    assert asyncio.run(run()) == [0, 1, 2]


def test_what_is_left_is_called_at_the_end():
    async def run() -> None:
        wake_ups = WakeUps()
        done = asyncio.Event()
        wake_ups.add(asyncio.get_running_loop(), done.set)
        wake_ups.close()
        await asyncio.wait_for(done.wait(), 10)

    asyncio.run(run())


def test_a_loop_that_is_closed_keeps_no_other_from_waking():
    closed = asyncio.new_event_loop()
    closed.close()

    async def run() -> None:
        wake_ups = WakeUps()
        for _ in range(2):
            done = asyncio.Event()
            wake_ups.add(closed, done.clear)
            wake_ups.add(asyncio.get_running_loop(), done.set)
            wake_ups.flush()
            await asyncio.wait_for(done.wait(), 10)
        wake_ups.close()

    asyncio.run(run())


def test_no_call_is_lost_between_threads_that_add_and_flush():
    async def run() -> int:
        wake_ups = WakeUps()
        loop = asyncio.get_running_loop()
        called: list[None] = []

        def work() -> None:
            for _ in range(500):
                wake_ups.add(loop, lambda: called.append(None))
                wake_ups.flush()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(wake_ups.close)
        await asyncio.sleep(0)
        return len(called)

    assert asyncio.run(run()) == 2000
