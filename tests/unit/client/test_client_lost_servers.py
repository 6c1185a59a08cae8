"""A call that may have killed its server is made at two servers at most; one that was only left unfinished goes on."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc
import pytest

import outrider
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.client_drivers import PROMPT, WHOLE, Collect, check_whole, with_both_clients
from tests.harness.servers.dying_server import DyingServer
from tests.harness.servers.scripted_server import Fault, ScriptedServer

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
def test_a_call_whose_server_dies_early_is_made_at_another(collect: Collect) -> None:
    with DyingServer("arrival") as first, ScriptedServer() as second:
        chunks, result = collect(first.address, second.address)
        assert first.has_died()
        assert len(second.requests) == 1
    check_whole(chunks, result)
    assert result.resumed == 0


@with_both_clients
@pytest.mark.parametrize("num_samples", [None, 3])
def test_a_call_that_kills_two_servers_reaches_no_third(collect: Collect, num_samples: int | None) -> None:
    with DyingServer("arrival") as first, DyingServer("arrival") as second, ScriptedServer() as third:
        with pytest.raises(outrider.ServerLost, match="which the call may have caused") as caught:
            collect(first.address, second.address, third.address, num_samples=num_samples)
        assert first.has_died()
        assert second.has_died()
        assert third.requests == []
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert caught.value.received is not None


@with_both_clients
def test_an_option_says_how_often_a_lost_call_is_made_again(collect: Collect) -> None:
    with DyingServer("arrival") as first, ScriptedServer() as second:
        with pytest.raises(outrider.ServerLost):
            collect(first.address, second.address, max_lost_retries=0)
        assert first.has_died()
        assert second.requests == []
    with DyingServer("arrival") as first, DyingServer("arrival") as second, ScriptedServer() as third:
        check_whole(*collect(first.address, second.address, third.address, max_lost_retries=2))


def test_a_call_without_a_stream_takes_two_servers_at_most_too() -> None:
    with DyingServer("arrival") as first, DyingServer("arrival") as second, ScriptedServer(Fault("arrival")) as third:
        addresses = (first.address, second.address, third.address)
        with outrider.Client(*addresses) as client, pytest.raises(outrider.ServerLost):
            client.tokenize("a")
        assert first.has_died()
        assert second.has_died()
        assert third.servicer.has_faults


async def test_an_async_unary_call_takes_two_servers_at_most() -> None:
    with DyingServer("arrival") as first, DyingServer("arrival") as second, ScriptedServer(Fault("arrival")) as third:
        async with outrider.AsyncClient(first.address, second.address, third.address) as client:
            with pytest.raises(outrider.ServerLost):
                await client.tokenize("a")
        assert first.has_died()
        assert second.has_died()
        assert third.servicer.has_faults


@with_both_clients
def test_a_call_whose_connection_breaks_is_made_once_more(collect: Collect) -> None:
    with cut_at_arrival() as first, ScriptedServer() as second:
        chunks, result = collect(first, second.address)
        assert len(second.requests) == 1
    check_whole(chunks, result)


@with_both_clients
def test_a_call_whose_connection_breaks_twice_is_not_repeated(collect: Collect) -> None:
    with cut_at_arrival() as first, cut_at_arrival() as second, ScriptedServer() as third:
        with pytest.raises(outrider.Unavailable):
            collect(first, second, third.address)
        assert third.requests == []


@with_both_clients
def test_a_stream_whose_server_dies_continues_elsewhere(collect: Collect) -> None:
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
