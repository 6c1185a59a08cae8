"""A stream continues with the same bytes, whatever happens to its servers."""

import grpc
import pytest

import outrider
from outrider import Chunk
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.network.free_port import free_port
from tests.harness.servers.client_drivers import PROMPT, WHOLE, Collect, check_whole, collect_sync, with_both_clients
from tests.harness.servers.scripted_server import DRAWN_SEED, Fault, Request, ScriptedServer, ScriptedServicer, text_of


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_resumes_after_every_token(cut: int) -> None:
    """Every cut, those inside a character included."""
    with ScriptedServer(Fault(at=cut)) as server:
        chunks, result = collect_sync(server.address, seed=DRAWN_SEED)
        check_whole(chunks, result)
        assert result.resumed == 1
        assert list(server.requests[1].continue_from.token_ids) == WHOLE[:cut]


@with_both_clients
def test_resumes_with_all_that_makes_the_same_bytes(collect: Collect) -> None:
    with ScriptedServer(Fault(at=4)) as server:
        _, result = collect(server.address, temperature=0.5, max_tokens=40, add_special_tokens=True, heal=True)
        first, second = server.requests
    assert not first.HasField("continue_from")
    expected = Request()
    expected.CopyFrom(first)
    expected.prompt.token_ids.ids.extend(PROMPT.encode())
    expected.sampling.seed = DRAWN_SEED
    expected.request_id = "made-up"
    expected.continue_from.token_ids.extend(WHOLE[:4])
    expected.continue_from.fingerprint = "f1"
    assert second == expected
    assert list(result.token_ids) == WHOLE[:40]


BREAKS = {
    "status": Fault(at=7),
    "cancelled by the server": Fault(at=7, how=grpc.StatusCode.CANCELLED),
    "reset": Fault(at=7, how=grpc.StatusCode.INTERNAL, details="Received RST_STREAM with error code 2"),
    "removed": Fault(at=7, how=grpc.StatusCode.UNKNOWN, details="Stream removed"),
    "ended early": Fault(at=7, how="end"),
    "full when resuming": Fault(at=7),
}


@with_both_clients
@pytest.mark.parametrize("fault", BREAKS.values(), ids=BREAKS.keys())
def test_resumes_after_every_kind_of_break(collect: Collect, fault: Fault) -> None:
    with ScriptedServer(fault, Fault("arrival", grpc.StatusCode.RESOURCE_EXHAUSTED)) as server:
        chunks, result = collect(server.address)
        check_whole(chunks, result)
        assert len(server.requests) == 3
    assert result.resumed == 1


@with_both_clients
def test_a_stream_is_asked_anew_if_nothing_had_started(collect: Collect) -> None:
    with ScriptedServer(Fault("arrival"), Fault("arrival", how="end")) as server:
        chunks, result = collect(server.address)
        check_whole(chunks, result)
        assert server.requests[0] == server.requests[1] == server.requests[2]
    assert result.resumed == 0


@with_both_clients
def test_a_stream_that_lacks_only_its_end_continues(collect: Collect) -> None:
    with ScriptedServer(Fault("end")) as server:
        chunks, result = collect(server.address)
        check_whole(chunks, result)
        assert list(server.requests[1].continue_from.token_ids) == WHOLE
    assert result.resumed == 1


@with_both_clients
def test_retries_are_counted_anew_after_every_token(collect: Collect) -> None:
    with ScriptedServer(*[Fault(at=1)] * 20) as server:
        chunks, result = collect(server.address, max_retries=1)
    check_whole(chunks, result)
    assert result.resumed == 20


@with_both_clients
def test_a_stream_gives_up_after_max_retries_with_its_tokens(collect: Collect) -> None:
    with ScriptedServer(Fault(at=10), *[Fault(at=0)] * 9) as server:
        with pytest.raises(outrider.Unavailable, match="scripted") as caught:
            collect(server.address, max_retries=2)
        assert len(server.requests) == 3
    received = caught.value.received
    assert received is not None
    assert list(received.token_ids) == WHOLE[:10]
    assert received.text == text_of(WHOLE[:10], is_whole=False)


@with_both_clients
def test_resuming_can_be_turned_off(collect: Collect) -> None:
    with ScriptedServer(Fault(at=10)) as server:
        with pytest.raises(outrider.Unavailable):
            collect(server.address, max_retries=0)
        assert len(server.requests) == 1


@with_both_clients
def test_other_errors_are_not_tried_again(collect: Collect) -> None:
    with ScriptedServer(Fault(at=5, how=grpc.StatusCode.INTERNAL, details="a bug")) as server:
        with pytest.raises(outrider.OutriderError, match="a bug") as caught:
            collect(server.address)
        assert len(server.requests) == 1
    assert caught.value.code is grpc.StatusCode.INTERNAL
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == WHOLE[:5]


@with_both_clients
def test_a_full_server_is_not_pressed(collect: Collect) -> None:
    with ScriptedServer(Fault("arrival", grpc.StatusCode.RESOURCE_EXHAUSTED)) as server:
        with pytest.raises(outrider.ResourceExhausted):
            collect(server.address)
        assert len(server.requests) == 1


@with_both_clients
def test_a_stream_continues_at_another_address(collect: Collect) -> None:
    with ScriptedServer(Fault(at=8)) as one, ScriptedServer(Fault(at=6)) as two:
        chunks, result = collect(one.address, two.address)
        assert [len(server.requests) for server in (one, two)] == [2, 1]
    check_whole(chunks, result)
    assert result.resumed == 2


@with_both_clients
def test_another_fingerprint_is_passed_over(collect: Collect) -> None:
    with (
        ScriptedServer(Fault(at=8), Fault("arrival"), Fault("arrival")) as one,
        ScriptedServer(fingerprint="f2") as two,
    ):
        chunks, result = collect(one.address, two.address)
        assert [len(server.requests) for server in (one, two)] == [4, 1]
    check_whole(chunks, result)
    assert result.started.fingerprint == "f1"


@with_both_clients
def test_never_spliced_when_all_have_another_fingerprint(collect: Collect) -> None:
    with ScriptedServer(Fault(at=8, new_fingerprint="f3")) as one, ScriptedServer(fingerprint="f2") as two:
        with pytest.raises(outrider.FingerprintMismatch, match="the fingerprint is f3") as caught:
            collect(one.address, two.address)
        assert [len(server.requests) for server in (one, two)] == [2, 1]
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == WHOLE[:8]


class CarelessServicer(ScriptedServicer):
    """Continues any request, whatever its fingerprint."""

    def _goes_on_from(self, fingerprint: str) -> bool:
        return True


@with_both_clients
def test_never_spliced_by_a_server_that_forgets_to_refuse(collect: Collect) -> None:
    with (
        ScriptedServer(Fault(at=8, new_fingerprint="f2"), servicer_type=CarelessServicer) as server,
        pytest.raises(outrider.FingerprintMismatch, match="f2") as caught,
    ):
        collect(server.address)
    assert caught.value.received is not None
    assert list(caught.value.received.token_ids) == WHOLE[:8]


@with_both_clients
def test_a_reset_connection(collect: Collect) -> None:
    with ScriptedServer(Fault(at=9, how="hang")) as server, CuttingProxy(server.port) as proxy:

        def cut_where_the_server_hangs(chunk: Chunk) -> None:
            received.extend(chunk.token_ids)
            if len(received) == 9:
                proxy.cut()

        received: list[int] = []
        chunks, result = collect(proxy.address, on_chunk=cut_where_the_server_hangs)
    check_whole(chunks, result)
    assert result.resumed == 1


@with_both_clients
def test_a_server_that_is_stopped_and_comes_back(collect: Collect) -> None:
    servers = [ScriptedServer(Fault(at=9, how="hang"), port=free_port())]

    def restart_where_the_server_hangs(chunk: Chunk) -> None:
        received.extend(chunk.token_ids)
        if len(received) == 9:
            servers[0].stop()
            servers.append(ScriptedServer(port=servers[0].port))

    received: list[int] = []
    chunks, result = collect(servers[0].address, on_chunk=restart_where_the_server_hangs)
    servers[1].stop()
    check_whole(chunks, result)
    assert result.resumed == 1


def test_later_calls_start_at_the_address_that_works() -> None:
    with ScriptedServer(port=free_port()) as gone, ScriptedServer() as alive:
        gone.stop()
        with outrider.Client(gone.address, alive.address, max_backoff=0.05) as client:
            client.generate(PROMPT)
            with ScriptedServer(port=gone.port) as back:
                client.generate(PROMPT)
                assert (len(back.requests), len(alive.requests)) == (0, 2)
