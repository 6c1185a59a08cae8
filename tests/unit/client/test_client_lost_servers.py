"""What a server may have died of is not carried to the next one; what it only left unfinished is."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc
import pytest

import outrider
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.client_drivers import PROMPT, WHOLE, Collect, check_whole, with_both_clients
from tests.harness.servers.dying_server import DyingServer
from tests.harness.servers.mute_health import BROKEN, MuteHealth
from tests.harness.servers.scripted_server import Fault, ScriptedServer
from tests.harness.servers.server import wait_until

pytestmark = pytest.mark.process


@contextmanager
def cut_at_arrival() -> Iterator[str]:
    """The address of a server that lives, and whose connection breaks when the call has arrived."""
    with ScriptedServer(Fault("arrival", how="hang")) as server, CuttingProxy(server.port) as proxy:

        def cut() -> None:
            while not server.requests and not is_over.wait(0.01):
                pass
            proxy.cut()

        is_over = threading.Event()
        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            yield proxy.address
        finally:
            is_over.set()
            cutter.join()


@with_both_clients
@pytest.mark.parametrize("num_samples", [None, 3])
def test_a_call_that_a_server_dies_of_reaches_no_other(collect: Collect, num_samples: int | None) -> None:
    with DyingServer("arrival") as first, ScriptedServer() as second:
        with pytest.raises(outrider.ServerLost, match="may be what ended it") as caught:
            collect(first.address, second.address, num_samples=num_samples)
        assert first.has_died()
        assert second.requests == []
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert caught.value.received is not None


def test_nor_does_a_call_without_a_stream() -> None:
    with DyingServer("arrival") as first, ScriptedServer(Fault("arrival")) as second:
        with outrider.Client(first.address, second.address) as client, pytest.raises(outrider.ServerLost):
            client.tokenize("a")
        assert first.has_died()
        assert second.servicer.has_faults


async def test_nor_does_one_of_the_asynchronous_client() -> None:
    with DyingServer("arrival") as first, ScriptedServer(Fault("arrival")) as second:
        async with outrider.AsyncClient(first.address, second.address) as client:
            with pytest.raises(outrider.ServerLost):
                await client.tokenize("a")
        assert first.has_died()
        assert second.servicer.has_faults


@with_both_clients
def test_a_call_whose_connection_breaks_is_made_once_more(collect: Collect) -> None:
    with cut_at_arrival() as first, ScriptedServer() as second:
        chunks, result = collect(first, second.address)
        assert len(second.requests) == 1
    check_whole(chunks, result)


@with_both_clients
def test_and_not_twice(collect: Collect) -> None:
    with cut_at_arrival() as first, cut_at_arrival() as second, ScriptedServer() as third:
        with pytest.raises(outrider.Unavailable):
            collect(first, second, third.address)
        assert third.requests == []


@with_both_clients
def test_a_stream_whose_server_dies_goes_on_elsewhere(collect: Collect) -> None:
    with DyingServer(4) as first, ScriptedServer() as second:
        chunks, result = collect(first.address, second.address)
    check_whole(chunks, result)
    assert result.resumed == 1


@with_both_clients
def test_a_stream_that_every_server_dies_of_does_not_reach_all(collect: Collect) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(DyingServer(at)) for at in (2, 0, 0, 0, 0, 0)]
        with pytest.raises(outrider.Unavailable) as caught:
            collect(*(server.address for server in servers))
        assert sum(server.has_died() for server in servers) == 4
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == WHOLE[:2]
    assert caught.value.received.started is not None
    assert bytes(caught.value.received.started.prompt_token_ids).decode() == PROMPT


@with_both_clients
def test_time_runs_out_while_a_server_is_asked_whether_it_lives(collect: Collect) -> None:
    with ScriptedServer(BROKEN, health=MuteHealth()) as server, pytest.raises(outrider.DeadlineExceeded) as caught:
        collect(server.address, timeout=0.5)
    assert caught.value.received is not None


def test_who_cancels_does_not_wait_for_the_answer() -> None:
    health = MuteHealth()
    with ScriptedServer(BROKEN, health=health) as server, outrider.Client(server.address) as client:
        stream = client.stream(PROMPT)

        def cancel() -> None:
            wait_until(lambda: health.num_asked > 0)
            stream.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(outrider.Cancelled):
            list(stream)
        canceller.join()
    assert health.num_asked == 1


async def test_nor_does_who_cancels_a_stream_of_the_asynchronous_client() -> None:
    health = MuteHealth()
    with ScriptedServer(BROKEN, health=health) as server:
        async with outrider.AsyncClient(server.address) as client:
            stream = client.stream(PROMPT)
            reading = asyncio.ensure_future(_read(stream))
            await asyncio.to_thread(wait_until, lambda: health.num_asked > 0)
            stream.cancel()
            with pytest.raises(outrider.Cancelled):
                await reading
    assert health.num_asked == 1


async def _read(stream: outrider.AsyncStream) -> None:
    async for _ in stream:
        pass
