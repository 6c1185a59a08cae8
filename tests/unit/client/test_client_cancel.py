"""A cancelled stream ends at the server too, and a call out of time raises an error with the tokens received."""

# ruff: noqa: PT012

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import outrider
from tests.harness.servers.client_drivers import PROMPT, WHOLE, Collect, with_both_clients
from tests.harness.servers.full_servicer import FULL, MUCH_LATER, full_servicer
from tests.harness.servers.scripted_server import Fault, ScriptedServer
from tests.harness.servers.server import wait_until

HANG = Fault(at=9, how="hang")
PATIENCE = 60  # seconds after which something is broken
PERSISTENT = {"max_retries": 10_000, "max_backoff": PATIENCE, "connect_timeout": math.inf}


@pytest.fixture
def server():
    with ScriptedServer(HANG) as server:
        yield server


async def _read(stream: outrider.AsyncStream) -> None:
    async for _ in stream:
        pass


def check_ended(server: ScriptedServer) -> None:
    assert server.servicer.ended.wait(PATIENCE)
    assert len(server.requests) == 1


def test_leaving_the_loop_cancels(server: ScriptedServer) -> None:
    with outrider.Client(server.address) as client:
        stream = client.stream(PROMPT)
        for _ in stream:
            break
        check_ended(server)
        assert stream.started is not None
        assert stream.prefill == outrider.Prefill(len(PROMPT), len(PROMPT))
        assert list(stream.received.token_ids) == WHOLE[:3]
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = stream.result
        with pytest.raises(RuntimeError, match="once"):
            list(stream)


def test_leaving_the_with_block_cancels(server: ScriptedServer) -> None:
    with outrider.Client(server.address) as client:
        with client.stream(PROMPT) as stream:
            chunks = iter(stream)
            next(chunks)
        check_ended(server)
        with pytest.raises(outrider.Cancelled):
            list(chunks)


def test_cancel_from_another_thread(server: ScriptedServer) -> None:
    with outrider.Client(server.address) as client:
        stream = client.stream(PROMPT)
        received: list[int] = []
        with pytest.raises(outrider.Cancelled) as caught:
            for chunk in stream:
                received.extend(chunk.token_ids)
                if len(received) == 9:  # the next chunk never comes
                    threading.Timer(0.05, stream.cancel).start()
        check_ended(server)
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == received == WHOLE[:9]


def test_cancel_while_no_server_is_there() -> None:
    with ScriptedServer() as server:
        server.stop()
        with outrider.Client(server.address, **PERSISTENT) as client:
            stream = client.stream(PROMPT)
            threading.Timer(0.3, stream.cancel).start()
            with pytest.raises(outrider.Cancelled):
                list(stream)


def test_closing_the_client_cancels(server: ScriptedServer) -> None:
    client = outrider.Client(server.address)
    stream = client.stream(PROMPT)
    with pytest.raises(outrider.Cancelled):
        for _ in stream:
            client.close()
    check_ended(server)


def test_closing_the_client_ends_the_wait_for_a_full_server() -> None:
    full = ScriptedServer(FULL, servicer_type=full_servicer(MUCH_LATER))
    with full as server, outrider.Client(server.address) as client, ThreadPoolExecutor(1) as readers:
        reading = readers.submit(list, client.stream(PROMPT))
        wait_until(lambda: len(server.requests) == 1)
        client.close()
        with pytest.raises(outrider.Cancelled):
            reading.result(PATIENCE)


async def test_leaving_the_async_loop_cancels(server: ScriptedServer) -> None:
    async with outrider.AsyncClient(server.address) as client:
        async for _ in client.stream(PROMPT):
            break
        assert await asyncio.to_thread(server.servicer.ended.wait, PATIENCE)


async def test_leaving_the_async_with_block_cancels(server: ScriptedServer) -> None:
    async with outrider.AsyncClient(server.address) as client:
        async with client.stream(PROMPT) as stream:
            chunks = aiter(stream)
            await anext(chunks)
        assert await asyncio.to_thread(server.servicer.ended.wait, PATIENCE)
        with pytest.raises(outrider.Cancelled):
            await anext(chunks)


async def test_cancel_from_another_task(server: ScriptedServer) -> None:
    async with outrider.AsyncClient(server.address) as client:
        stream = client.stream(PROMPT)
        received: list[int] = []
        with pytest.raises(outrider.Cancelled) as caught:
            async for chunk in stream:
                received.extend(chunk.token_ids)
                if len(received) == 9:
                    asyncio.get_running_loop().call_later(0.05, stream.cancel)
        assert await asyncio.to_thread(server.servicer.ended.wait, PATIENCE)
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == received == WHOLE[:9]


async def test_cancelling_the_task_stays_a_cancelled_task(server: ScriptedServer) -> None:
    async with outrider.AsyncClient(server.address) as client:
        stream = client.stream(PROMPT)
        has_nine = asyncio.Event()

        async def consume() -> None:
            async for _ in stream:
                if len(stream.received.token_ids) == 9:
                    has_nine.set()

        task = asyncio.create_task(consume())
        await has_nine.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.servicer.ended.wait, PATIENCE)


async def test_async_cancel_while_no_server_is_there() -> None:
    with ScriptedServer() as server:
        server.stop()
        async with outrider.AsyncClient(server.address, **PERSISTENT) as client:
            stream = client.stream(PROMPT)
            asyncio.get_running_loop().call_later(0.3, stream.cancel)
            with pytest.raises(outrider.Cancelled):
                async for _ in stream:
                    pass


async def test_closing_the_async_client_cancels(server: ScriptedServer) -> None:
    client = outrider.AsyncClient(server.address)
    with pytest.raises(outrider.Cancelled):
        async for _ in client.stream(PROMPT):
            await client.close()
    assert await asyncio.to_thread(server.servicer.ended.wait, PATIENCE)


async def test_closing_the_async_client_ends_a_wait_for_a_full_server() -> None:
    with ScriptedServer(FULL, servicer_type=full_servicer(MUCH_LATER)) as server:
        client = outrider.AsyncClient(server.address)
        reading = asyncio.ensure_future(_read(client.stream(PROMPT)))
        await asyncio.to_thread(wait_until, lambda: len(server.requests) == 1)
        await client.close()
        with pytest.raises(outrider.Cancelled):
            await asyncio.wait_for(reading, PATIENCE)


@with_both_clients
def test_time_runs_out_in_the_stream(collect: Collect) -> None:
    for seconds in (1.0, 8.0, 64.0):  # a slow machine needs more of them for nine tokens
        with ScriptedServer(HANG) as server:
            with pytest.raises(outrider.DeadlineExceeded) as caught:
                collect(server.address, timeout=seconds)
            if caught.value.received is not None and len(caught.value.received.token_ids) == 9:
                break
    check_ended(server)
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == WHOLE[:9]


@with_both_clients
def test_time_runs_out_between_retries(collect: Collect) -> None:
    with ScriptedServer() as server:
        server.stop()
        with pytest.raises(outrider.DeadlineExceeded):
            collect(server.address, timeout=0.5, max_retries=10_000)
