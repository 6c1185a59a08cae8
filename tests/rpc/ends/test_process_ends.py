"""How services end: drained, at once, or because a step hangs; and what their clients get nevertheless."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import outrider
from services.service.server_config import ServerConfig
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.faulty_targets import faulty_target, hangs, serving_address
from tests.rpc.harness.health_watch import HealthWatch
from tests.rpc.harness.predictors import GatePredictor, SlowPredictor
from tests.rpc.harness.requests import PROMPT

OPTIONS = {"max_tokens": 200, "seed": 5, "ignore_eos": True}


@pytest.fixture(scope="module")
def whole(model: Path) -> outrider.Result:
    """The answer of a server that nothing happens to."""
    with target_server(model) as target, outrider.Client(target.address) as client:
        return client.generate(PROMPT, **OPTIONS)


def assert_resumed(result: outrider.Result, whole: outrider.Result, *, times: range) -> None:
    assert (result.text, result.token_ids) == (whole.text, whole.token_ids)
    assert result.finish_reason == whole.finish_reason
    assert result.resumed in times


def num_ended(target: RunningTarget) -> int:
    """Streams that have ended, however they did."""
    return sum(count for (method, _), count in target.server._server.calls.items() if method == "StreamGenerate")


def test_a_stream_that_outlasts_the_drain_continues_elsewhere(model: Path, whole: outrider.Result) -> None:
    gate = GatePredictor(num_tokens=8)
    gate.gate.clear()
    with target_server(model, predictor=gate) as leaving, target_server(model) as staying:
        blocks = leaving.engine.blocks
        with outrider.Client(leaving.address, staying.address) as client, client.stream(PROMPT, **OPTIONS) as stream:
            closed = None
            for _ in stream:
                closed = closed or leaving.begin(leaving.server.close())
            assert_resumed(stream.result, whole, times=range(1, 2))
        gate.gate.set()
        closed.result(60)
        assert blocks.num_free == blocks.num_blocks
        staying.assert_all_free()


def test_a_stream_outlives_its_connection(model: Path, whole: outrider.Result) -> None:
    """A slow machine needs several of them; each lasts for some tokens at least."""
    server = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_connection_age=1.0, max_connection_age_grace=0.1)
    gate = GatePredictor(num_tokens=8)
    gate.gate.clear()
    has_begun = threading.Event()

    def read(stream: outrider.Stream) -> outrider.Result:
        for _ in stream:
            has_begun.set()
        return stream.result

    with target_server(model, predictor=gate, server=server) as target:
        with (
            outrider.Client(target.address) as client,
            client.stream(PROMPT, **OPTIONS) as stream,
            ThreadPoolExecutor(1) as thread,
        ):
            reading = thread.submit(read, stream)
            assert has_begun.wait(60)  # a connection may end before it has carried anything
            before = num_ended(target)
            wait_until(lambda: num_ended(target) > before)
            gate.gate.set()
            assert_resumed(reading.result(), whole, times=range(1, OPTIONS["max_tokens"]))
        target.assert_all_free()


def test_a_stream_within_the_grace_is_not_cut(model: Path, whole: outrider.Result) -> None:
    server = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_connection_age=0.3)
    with target_server(model, predictor=SlowPredictor(), server=server) as target:
        with outrider.Client(target.address) as client:
            result = client.generate(PROMPT, **OPTIONS)
        assert_resumed(result, whole, times=range(1))


def test_the_same_signal_again_ends_a_service_at_once(model: Path, tmp_path: Path) -> None:
    with faulty_target(hangs, model, tmp_path, "--no-lookup", "--drain-seconds", "3600") as hanging:
        address, process = serving_address(hanging), hanging.process
        with outrider.Client(address) as client, client.stream(PROMPT, **OPTIONS) as stream:
            chunks = iter(stream)
            next(chunks)
            watch = HealthWatch(address)
            assert watch.next() == "SERVING"
            process.send_signal(signal.SIGHUP)
            process.terminate()
            assert watch.next() == "NOT_SERVING"
            with (
                outrider.Client(address, max_retries=0) as other,
                pytest.raises(outrider.Unavailable, match="the server is shutting down"),
            ):
                other.generate(PROMPT)
            assert process.poll() is None
            process.terminate()
            assert process.wait(60) == 128 + 15
            watch.close()
        log = hanging.stderr.read_text()
    assert "reloaded: log level" in log
    assert "SIGTERM again: the process ends at once" in log


def test_a_hung_step_turns_health_off_and_ends_the_process(model: Path, tmp_path: Path, whole: outrider.Result) -> None:
    with (
        target_server(model) as other,
        faulty_target(hangs, model, tmp_path, "--no-lookup", "--hang-seconds", "1") as hanging,
    ):
        address = serving_address(hanging)
        with outrider.Client(address, other.address, max_retries=30) as client:
            watch = HealthWatch(address)
            assert watch.next() == "SERVING"
            result = client.generate(PROMPT, **OPTIONS)
        assert watch.next() == "NOT_SERVING"
        assert hanging.process.wait(60) == 4
        assert watch.next() == "UNAVAILABLE"
        watch.close()
        log = hanging.stderr.read_text()
    assert_resumed(result, whole, times=range(1, 2))
    assert log.index("nothing is served until it ends") < log.index("it is considered hung")
