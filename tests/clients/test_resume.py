"""The clients that resume: a stream continues with the same bytes, whatever happens to its servers."""

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2
from tests.clients.conftest import HEEDS_CTRL_C, SECONDS, Ended, RunClient
from tests.clients.records import float_bits, logprobs
from tests.clients.toolchains import RESUMING
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.dying_server import DyingServer
from tests.harness.servers.scripted_server import (
    DRAWN_SEED,
    Fault,
    Request,
    ScriptedServer,
    ScriptedServicer,
    answer,
    text_of,
)
from tests.harness.servers.server import wait_until

PROMPT = "def quicksort"
WHOLE = answer(list(PROMPT.encode()), DRAWN_SEED)
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
FULL = Fault("arrival", grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
BROKEN = Fault("arrival", grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2")


@pytest.fixture(scope="module", params=RESUMING)
def language(request: pytest.FixtureRequest) -> str:
    """Those that resume."""
    return request.param


def check_whole(ended: Ended) -> None:
    assert (ended.stdout, ended.returncode) == (text_of(WHOLE, is_whole=True) + "\n", 0), ended.stderr


def check_part(ended: Ended, count: int, words: str) -> None:
    """Assert that so many tokens have come, and that the error has these words."""
    text = text_of(WHOLE[:count], is_whole=False)
    assert (ended.stdout, ended.returncode) == (text + "\n" if text else "", 1), ended.stderr
    assert words in ended.stderr


def at(*servers: ScriptedServer | DyingServer | CuttingProxy) -> list[str]:
    return [f"--address={server.address}" for server in servers]


def test_a_stream_cut_after_every_token_is_the_same_stream(run_client: RunClient, tmp_path: Path) -> None:
    cuts = [Fault(at=1)] * (len(WHOLE) // 2)
    with ScriptedServer(*cuts) as one, ScriptedServer(*cuts) as two:
        check_whole(run_client(*at(one, two), f"--logprobs={tmp_path / 'logprobs'}", PROMPT))
        assert not one.servicer.has_faults
    assert logprobs(tmp_path / "logprobs") == [(token_id, float_bits(-token_id / 7)) for token_id in WHOLE]


class BindingServicer(ScriptedServicer):
    """Makes a grammar of a tool choice, or so it says."""

    def _started(self, request: Request, prompt: list[int], seed: int) -> generation_pb2.Started:
        started = super()._started(request, prompt, seed)
        started.grammar.CopyFrom(common_pb2.Grammar(regex=".*"))
        return started


def test_a_resumed_request_has_all_that_makes_the_same_bytes(run_client: RunClient) -> None:
    with ScriptedServer(Fault(at=4), servicer_type=BindingServicer) as server:
        run_client(*at(server), "--temperature=0.5", "--max-tokens=20", PROMPT)
        first, second = server.requests
    expected = Request()
    expected.CopyFrom(first)
    expected.prompt.token_ids.ids.extend(PROMPT.encode())
    expected.sampling.seed = DRAWN_SEED
    expected.request_id = "made-up"
    expected.grammar.regex = ".*"
    expected.continue_from.token_ids.extend(WHOLE[:4])
    expected.continue_from.fingerprint = "f1"
    assert second == expected


def test_every_kind_of_break_is_mended(run_client: RunClient) -> None:
    faults = (
        Fault("arrival"),
        Fault("arrival", how="end"),
        Fault(7),
        Fault(1, grpc.StatusCode.CANCELLED),
        Fault(1, grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2"),
        Fault(1, grpc.StatusCode.UNKNOWN, "Stream removed"),
        Fault(1, how="end"),
        FULL,
        Fault("end"),
    )
    with ScriptedServer(*faults) as server:
        check_whole(run_client(*at(server), PROMPT))
        assert len(server.requests) == len(faults) + 1
        assert server.requests[0] == server.requests[1] == server.requests[2]


def test_a_connection_that_is_reset(command: list[str]) -> None:
    with (
        ScriptedServer(Fault(9, how="hang")) as server,
        CuttingProxy(server.port) as proxy,
        subprocess.Popen([*command, *at(proxy), PROMPT], bufsize=0, **PIPES) as client,
    ):
        assert client.stdout is not None
        begun = client.stdout.read(len(text_of(WHOLE[:9], is_whole=False).encode()))
        proxy.cut()
        rest, errors = client.communicate(timeout=SECONDS)
    check_whole(Ended([], client.returncode, (begun + rest).decode(), errors.decode()))


def test_a_stream_whose_server_dies_continues_elsewhere(run_client: RunClient) -> None:
    with DyingServer(4) as first, ScriptedServer() as second:
        check_whole(run_client(*at(first, second), PROMPT))
        assert first.has_died()


def test_a_call_whose_server_dies_early_is_made_at_another(run_client: RunClient) -> None:
    with DyingServer("arrival") as first, ScriptedServer() as second:
        check_whole(run_client(*at(first, second), PROMPT))
        assert first.has_died()
        assert len(second.requests) == 1


def test_a_call_that_kills_two_servers_reaches_no_third(run_client: RunClient) -> None:
    with DyingServer("arrival") as first, DyingServer("arrival") as second, ScriptedServer() as third:
        check_part(run_client(*at(first, second, third), PROMPT), 0, "which the call may have caused")
        assert first.has_died()
        assert second.has_died()
        assert third.requests == []


def test_a_call_whose_connection_breaks_is_retried_only_once(run_client: RunClient) -> None:
    with ScriptedServer(BROKEN) as server:
        check_whole(run_client(*at(server), PROMPT))
        assert len(server.requests) == 2
    with ScriptedServer(BROKEN, BROKEN) as server:
        check_part(run_client(*at(server), PROMPT), 0, BROKEN.details)
        assert len(server.requests) == 2


def test_a_stream_that_breaks_over_and_over_does_not_reach_all(run_client: RunClient) -> None:
    with ScriptedServer(replace(BROKEN, at=2), *[replace(BROKEN, at=0)] * 5) as server:
        check_part(run_client(*at(server), PROMPT), 2, BROKEN.details)
        assert len(server.requests) == 4


def test_another_fingerprint_is_passed_over_and_never_spliced(run_client: RunClient) -> None:
    with ScriptedServer(Fault(8), Fault("arrival")) as one, ScriptedServer(fingerprint="f2") as two:
        check_whole(run_client(*at(one, two), PROMPT))
        assert [len(server.requests) for server in (one, two)] == [3, 1]
    with ScriptedServer(Fault(8, new_fingerprint="f3")) as one, ScriptedServer(fingerprint="f2") as two:
        check_part(run_client(*at(one, two), PROMPT), 8, "the fingerprint is f3")


class CarelessServicer(ScriptedServicer):
    """Continues any request, whatever its fingerprint."""

    def _goes_on_from(self, fingerprint: str) -> bool:
        return True


def test_a_server_that_forgets_to_refuse_is_never_spliced(run_client: RunClient) -> None:
    with ScriptedServer(Fault(8, new_fingerprint="f2"), servicer_type=CarelessServicer) as server:
        check_part(run_client(*at(server), PROMPT), 8, "the server continues with fingerprint f2")


def test_a_refused_call_is_cancelled_on_the_server(command: list[str]) -> None:
    ended = []

    class CountedServicer(CarelessServicer):
        def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[object]:  # noqa: N802
            context.add_callback(lambda: ended.append(request))
            return super().StreamGenerate(request, context)

    careless = (Fault(8, new_fingerprint="f2"), Fault(0, how="hang"))
    with (
        ScriptedServer(*careless, servicer_type=CountedServicer) as one,
        ScriptedServer(Fault("arrival"), Fault(1, how="hang")) as two,
        subprocess.Popen([*command, *at(one, two), PROMPT], **PIPES) as client,
    ):
        wait_until(lambda: len(two.requests) == 2)
        wait_until(lambda: ended == one.requests)
        assert (len(ended), client.poll()) == (2, None)
        client.kill()


def test_a_client_gives_up_after_its_retries_and_keeps_the_text(run_client: RunClient) -> None:
    with ScriptedServer(Fault(10), *[Fault(0)] * 9) as server:
        check_part(run_client(*at(server), "--max-retries=2", PROMPT), 10, "scripted")
        assert len(server.requests) == 3
    with ScriptedServer(Fault(5, grpc.StatusCode.INTERNAL, "a bug")) as server:
        check_part(run_client(*at(server), PROMPT), 5, "a bug")
        assert len(server.requests) == 1


class BusyServicer(ScriptedServicer):
    """Is full at first, with a delay for the retry."""

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[object]:  # noqa: N802
        if not self.requests:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "20"),))
        return super().StreamGenerate(request, context)


def test_a_full_server_is_asked_again_only_if_it_gives_a_delay(run_client: RunClient) -> None:
    with ScriptedServer(FULL, servicer_type=BusyServicer) as server:
        check_whole(run_client(*at(server), PROMPT))
        assert len(server.requests) == 2
    with ScriptedServer(FULL) as server:
        check_part(run_client(*at(server), PROMPT), 0, "full")
        assert len(server.requests) == 1


def test_ctrl_c_ends_the_waiting_too(command: list[str]) -> None:
    with ScriptedServer(*[Fault("arrival")] * 99) as server:
        tries = [*HEEDS_CTRL_C, *command, *at(server), "--max-retries=98", PROMPT]
        with subprocess.Popen(tries, **PIPES) as client:
            wait_until(lambda: len(server.requests) > 3)
            client.send_signal(signal.SIGINT)
            assert client.communicate(timeout=SECONDS) == (b"", b"")
    assert client.returncode == 130
