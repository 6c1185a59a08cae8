"""An aborted call ends where it waits, and nothing is remembered of calls that have ended."""

import asyncio

import pytest

from services.target.contracts.abortable_calls import AbortableCalls, CallAbortedError


async def test_an_aborted_call_ends_where_it_waits():
    calls, cancelled = AbortableCalls(), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with calls.begin("alice", "a") as call:
        waiting = asyncio.create_task(call.wait(wait))
        await asyncio.sleep(0)
        calls.abort("bob", "a")
        calls.abort("alice", "b")
        await asyncio.sleep(0.01)
        assert not waiting.done()
        calls.abort("alice", "a")
        with pytest.raises(CallAbortedError):
            await waiting
        assert cancelled.is_set()
    assert not calls._calls


async def test_an_aborted_call_may_be_aborted_again_while_it_ends():
    calls, ending = AbortableCalls(), asyncio.Event()

    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.sleep(0.01)

    with calls.begin("alice", "a") as call:
        waiting = asyncio.create_task(call.wait(end_slowly))
        await asyncio.sleep(0)
        calls.abort("alice", "a")
        await ending.wait()
        calls.abort("alice", "a")
        with pytest.raises(CallAbortedError):
            await waiting


async def test_an_aborted_call_ends_before_it_waits_again():
    calls = AbortableCalls()
    with calls.begin("alice", "a") as call, calls.begin("alice", "a") as same, calls.begin("alice", "b") as other:
        calls.abort("alice", "a")
        for one in (call, same):
            with pytest.raises(CallAbortedError):
                await one.wait(lambda: asyncio.sleep(0, "done"))
        assert await other.wait(lambda: asyncio.sleep(0, "done")) == "done"
    assert not calls._calls


async def test_a_timeout_within_is_no_abort():
    async def late() -> None:
        raise TimeoutError("of its own")

    with AbortableCalls().begin("alice", "a") as call, pytest.raises(TimeoutError, match="of its own"):
        await call.wait(late)
