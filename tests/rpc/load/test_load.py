"""A server with as much to do as it admits: which calls are refused, with which details, and that nothing is left."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

import outrider
from outrider.v1 import generation_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.service.access.caller import Caller, Scope
from services.service.access.tokens import new_token
from services.service.admission import Admission
from services.service.server_config import ServerConfig
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import PROMPT, detail, stream, stream_request, violations

MAX_SEQUENCES, MAX_QUEUE, MAX_TOKENS, MAX_BYTES = 2, 30, 600, 9 << 20
MAX_STREAMS = MAX_SEQUENCES + MAX_QUEUE
METHOD = "/outrider.v1.GenerationService/StreamGenerate"
ALONE = [("grpc.use_local_subchannel_pool", 1)]
ENDLESS = {"max_tokens": 1000, "ignore_eos": True}


@contextmanager
def others(admission: Admission, amount: int) -> Iterator[None]:
    """Two other callers have so much."""
    with admission.admit(amount // 2, Caller("one")), admission.admit(amount - amount // 2, Caller("another")):
        yield


@pytest.fixture(scope="module")
def small(model: Path) -> Iterator[RunningTarget]:
    """A server that takes in little."""
    config = ServerConfig(
        listen="127.0.0.1:0",
        drain_seconds=0,
        max_queue=MAX_QUEUE,
        max_waiting_tokens=MAX_TOKENS,
        max_held_bytes=MAX_BYTES,
    )
    with target_server(model, server=config, max_sequences=MAX_SEQUENCES) as running:
        yield running
        running.assert_all_free()


def refused(target: RunningTarget, request: generation_pb2.StreamGenerateRequest, **options: Any) -> tuple[str, str]:
    """Why a request is refused, and whose limit that is; the refusal says when to retry, in both ways."""
    with pytest.raises(grpc.RpcError) as failure:
        list(target.stub.StreamGenerate(request, **options))
    call = failure.value
    assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    info = detail(call, error_details_pb2.ErrorInfo)
    delay = detail(call, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds()
    assert dict(call.trailing_metadata())["grpc-retry-pushback-ms"] == str(delay)
    assert 0 < delay <= 60_000
    return info.reason, info.metadata["limit_of"]


def test_waiting_prompts_are_limited_by_their_tokens(small: RunningTarget) -> None:
    with others(small.model.admissions.waiting_tokens, MAX_TOKENS - 3):
        assert refused(small, stream_request([7] * 4)) == ("TOO_MANY_PROMPT_TOKENS", "server")
        assert len(stream(small, stream_request([7] * 3)).token_ids) == 24
    assert small.model.admissions.waiting_tokens.total == 0


def test_large_requests_are_refused_before_they_are_read(small: RunningTarget) -> None:
    with others(small.server._server.held_bytes, MAX_BYTES - (1 << 17)):
        assert refused(small, stream_request(request_id="x" * (1 << 18))) == ("TOO_MANY_BYTES", "server")
        assert len(stream(small, stream_request()).token_ids) == 24, "a small one costs nothing of that"
    assert small.server._server.held_bytes.total == 0


def test_a_crowd_is_refused_before_its_requests_are_read(small: RunningTarget) -> None:
    ended = threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    with others(small.model.admissions.streams, MAX_STREAMS), grpc.insecure_channel(small.address) as channel:
        with pytest.raises(grpc.RpcError) as failure:
            next(channel.stream_stream(METHOD)(nothing(), timeout=60))
        ended.set()
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_call_without_a_request_names_the_missing_request(small: RunningTarget) -> None:
    with grpc.insecure_channel(small.address) as channel, pytest.raises(grpc.RpcError) as failure:
        next(channel.stream_stream(METHOD)(iter(()), timeout=60))
    assert violations(failure.value) == {"request": "is missing; allowed: one message"}


def test_a_call_that_would_begin_too_late_is_refused(small: RunningTarget) -> None:
    waiting = small.model.admissions.waiting_tokens
    with others(waiting, 290):
        waiting._busy, waiting._ended = 10.0, 20.0  # as if prompts had gone at two tokens a second
        assert refused(small, stream_request([7] * 200), timeout=10.0) == ("DEADLINE_TOO_NEAR", "server")
        assert len(stream(small, stream_request([7] * 3), timeout=60.0).token_ids) == 24, "which would begin in time"


def test_the_client_says_when_to_come_back(small: RunningTarget) -> None:
    streams = small.model.admissions.streams
    with others(streams, MAX_STREAMS), outrider.Client(small.address) as client:
        streams._busy, streams._ended = 1000.0, 1.0  # as if one had ended in a quarter of an hour
        with pytest.raises(outrider.ResourceExhausted) as failure:
            client.generate(PROMPT, max_tokens=4, timeout=20.0)
        assert failure.value.retry_after is not None
    streams._lines.clear()  # else the next caller's delay would come after this one's


def test_the_client_retries_after_the_servers_delay(small: RunningTarget) -> None:
    streams, calls = small.model.admissions.streams, small.server._server.calls
    refusals = calls["StreamGenerate", "RESOURCE_EXHAUSTED"]
    with outrider.Client(small.address) as client, ThreadPoolExecutor() as thread:
        with others(streams, MAX_STREAMS):
            streams._busy, streams._ended = 10.0, 100.0  # as if ten had ended in a second
            answer = thread.submit(client.generate, PROMPT, max_tokens=4, ignore_eos=True)
            wait_until(lambda: calls["StreamGenerate", "RESOURCE_EXHAUSTED"] > refusals)
        assert len(answer.result().token_ids) == 4


def test_a_token_has_limits_of_its_own(model: Path, tmp_path: Path) -> None:
    tokens = {name: new_token(name, [Scope.GENERATE]) for name in ("one", "two")}
    lines = [json.dumps({**json.loads(line), "max_streams": 1}) for _, line in tokens.values()]
    (tmp_path / "tokens").write_text("\n".join(lines))
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    one, two = ((("authorization", f"Bearer {token}"),) for token, _ in tokens.values())
    predictor = GatePredictor()
    with target_server(model, predictor=predictor, server=config) as target:
        predictor.gate.clear()  # it cannot be through before another one asks
        call = target.stub.StreamGenerate(stream_request(stop=ENDLESS), metadata=one)
        assert next(call).HasField("started")
        assert refused(target, stream_request(), metadata=one) == ("TOO_MANY_REQUESTS", "caller")
        predictor.gate.set()
        assert [*target.stub.StreamGenerate(stream_request(), metadata=two)][-1].HasField("finished")
        call.cancel()
        request = stream_request()
        request.num_samples = 2
        with pytest.raises(grpc.RpcError) as failure:
            [*target.stub.StreamGenerate(request, metadata=two)]
        told = {"num_samples": "is 2; allowed: at least 1, at most 1"}
        assert violations(failure.value) == told, "no waiting would help"


async def block_event_loop(ended: threading.Event) -> None:
    ended.wait(60)


def test_a_crowd_is_refused_with_resource_exhausted(small: RunningTarget) -> None:
    ended, request = threading.Event(), generation_pb2.DetokenizeRequest(token_ids=[5])
    with others(small.model.admissions.text_calls, 64), ThreadPoolExecutor() as thread, ExitStack() as channels:
        blocked = thread.submit(small.call, block_event_loop(ended))
        calls = []
        for _ in range(2):
            channel = channels.enter_context(grpc.insecure_channel(small.address, ALONE))
            calls += [GenerationServiceStub(channel).Detokenize.future(request) for _ in range(200)]
        time.sleep(1.0)  # the core has them all, and the event loop none
        ended.set()
        blocked.result()
        assert {call.code() for call in calls} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
