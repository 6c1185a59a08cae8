"""What becomes of calls and of the service when a front ends, and of the fronts when the service does."""

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import outrider
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.service.server_config import ServerConfig
from services.target.fronts import served_front
from services.target.fronts.fronts import Fronts
from services.target.server import SERVICE
from tests.harness.processes.child_processes import has_ended
from tests.harness.processes.warm_commands import warm_process
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.fronts.conftest import channels_of, fronts_of
from tests.rpc.harness.commands import SMALL
from tests.rpc.harness.requests import PROMPT, stream, stream_request

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
LONG = {"max_tokens": 400, "ignore_eos": True}


def test_a_front_that_dies_costs_its_own_streams_only(fronted: RunningTarget) -> None:
    request = stream_request(stop=LONG)
    expected = stream(fronted, request).token_ids
    with ExitStack() as stack:
        fronts, channels = fronts_of(fronted), channels_of(fronted, stack)
        with fronted.held():
            broken, whole = (GenerationServiceStub(channel).StreamGenerate(request) for channel in channels)
            os.kill(fronts[0], signal.SIGKILL)
            with pytest.raises(grpc.RpcError) as lost:
                list(broken)
            assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
        assert [each for event in whole for each in event.chunk.token_ids] == expected
    fronted.assert_all_free()
    wait_until(lambda: not {fronts[0]} & {*fronts_of(fronted)})
    with ExitStack() as stack:
        for channel in channels_of(fronted, stack):
            assert stream_of(channel) == stream(fronted, stream_request()).token_ids


def test_calls_that_are_left_at_once_leave_nothing(fronted: RunningTarget) -> None:
    with ExitStack() as stack:
        for channel in channels_of(fronted, stack):
            for _ in range(100):
                GenerationServiceStub(channel).StreamGenerate(stream_request()).cancel()
            assert stream_of(channel)
    server = fronted.server._server
    assert isinstance(server, Fronts)
    wait_until(lambda: not any(front._calls or front._begun for front in server._fronts.values()))


def test_another_front_takes_the_place_of_one_that_hangs(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with target_server(model, fronts=2) as target:
        before = fronts_of(target)
        os.kill(before[0], signal.SIGSTOP)
        monkeypatch.setattr(served_front, "MOST_SECONDS", 0.5)
        wait_until(lambda: before[0] not in fronts_of(target))
        monkeypatch.undo()
        with ExitStack() as stack:
            answers = [stream_of(channel) for channel in channels_of(target, stack)]
        assert answers[0] == answers[1] == stream(target, stream_request()).token_ids


def stream_of(channel: grpc.Channel) -> list[int]:
    answer = GenerationServiceStub(channel).StreamGenerate(stream_request(), timeout=60)
    return [each for event in answer for each in event.chunk.token_ids]


def test_a_client_continues_elsewhere_with_the_same_bytes(fronted: RunningTarget) -> None:
    with outrider.Client(fronted.address) as client:
        expected = client.generate(PROMPT, max_tokens=1500, seed=5, ignore_eos=True)
        with client.stream(PROMPT, max_tokens=1500, seed=5, ignore_eos=True) as answer:
            chunks = iter(answer)
            next(chunks)
            for process_id in fronts_of(fronted):
                os.kill(process_id, signal.SIGKILL)
            for _ in chunks:
                continue
        assert answer.result.token_ids == expected.token_ids
        assert answer.result.text == expected.text
        assert answer.result.resumed


def test_health_follows_the_service_at_each_front(model: Path) -> None:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=60)
    with ExitStack() as stack:
        target = stack.enter_context(target_server(model, server=config, fronts=2, loads=False))
        channels = channels_of(target, stack)
        asked = health_pb2.HealthCheckRequest(service=SERVICE)
        watches = [health_pb2_grpc.HealthStub(channel).Watch(asked, timeout=300) for channel in channels]
        assert all(next(watch).status == NOT_SERVING for watch in watches)
        for channel in channels:
            with pytest.raises(grpc.RpcError, match="still loading"):
                stream_of(channel)
        target.call(target.server.open())
        assert all(next(watch).status == SERVING for watch in watches)
        with target.held():
            calls = [GenerationServiceStub(channel).StreamGenerate(stream_request()) for channel in channels]
            for call in calls:
                call.initial_metadata()
            closing = target.begin(target.server.close())
            assert all(next(watch).status == NOT_SERVING for watch in watches)
            for channel in channels:
                with pytest.raises(grpc.RpcError, match="shutting down"):
                    stream_of(channel)
        assert [len([each for event in call for each in event.chunk.token_ids]) for call in calls] == [24, 24]
        closing.result(60)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_of_a_target_that_ends(model: Path, number: signal.Signals) -> None:
    arguments = ["target", "--model", str(model), *SMALL, "--listen", "127.0.0.1:0", "--fronts", "2"]
    with warm_process(arguments) as command:
        wait_until(lambda: command.stdout.read_text().endswith("serving\n"))
        address = command.stdout.read_text().splitlines()[0].removeprefix("listening on ")
        with outrider.Client(address) as client:
            assert client.generate(PROMPT, max_tokens=4, seed=5, ignore_eos=True).token_ids
        started = [*map(int, re.findall(r"has process (\d+)", command.stderr.read_text()))]
        assert len(started) == 3
        assert not any(map(has_ended, started))
        command.process.send_signal(number)
        command.process.wait(60)
        wait_until(lambda: all(map(has_ended, started)))


@pytest.mark.process
def test_a_service_that_hangs_is_not_healthy(model: Path) -> None:
    arguments = ["target", "--model", str(model), *SMALL, "--listen", "127.0.0.1:0", "--fronts", "2"]
    with warm_process(arguments) as command:
        wait_until(lambda: command.stdout.read_text().endswith("serving\n"))
        address = command.stdout.read_text().splitlines()[0].removeprefix("listening on ")
        with grpc.insecure_channel(address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=300)
            assert next(watch).status == SERVING
            command.process.send_signal(signal.SIGSTOP)
            assert next(watch).status == NOT_SERVING
            command.process.send_signal(signal.SIGCONT)
            assert next(watch).status == SERVING


@pytest.mark.process
def test_fronts_need_a_port(model: Path, tmp_path: Path) -> None:
    arguments = ["target", "--model", str(model), "--listen", f"unix:{tmp_path}/socket", "--fronts", "2"]
    with warm_process(arguments) as command:
        assert command.process.wait(60) == 1
        assert "fronts is 2; it must be 0 or 1 where listen is unix:PATH" in command.stderr.read_text()
