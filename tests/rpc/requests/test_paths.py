"""A path may be any bytes: a call of an unknown method is refused as such, and affects no other."""

import asyncio
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.harness.servers.server import wait_until
from tests.rpc.harness.administered import administered_target
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import stream, stream_request

PATHS = [
    b"\xf5",
    b"/\xff\xfe",
    b"/outrider.v1.GenerationService/\xc3",
    b"/outrider.v1.DraftService/\xed\xa0\x80",
    b"/x",
]


def call_every_path(address: str) -> None:
    """Each several times, from one connection; then somebody else asks for the service's health."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        for path in PATHS * 3:
            call = channel.stream_stream(path)  # type: ignore[arg-type]  # bytes go out as they are
            with pytest.raises(grpc.RpcError) as failure:
                next(call(iter([b""]), timeout=60))
            assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert failure.value.details() == "Method not found!"
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_target_answers_any_path_and_its_streams_run_on(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    predictor = GatePredictor()
    with administered_target(model, predictor=predictor) as (target, _):
        expected = stream(target, stream_request()).token_ids
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request())
        events = [next(call)]
        before = target.call(count_tasks())
        call_every_path(target.address)
        call_every_path(target.server.admin.address)
        wait_until(lambda: target.call(count_tasks()) <= before)
        predictor.gate.set()
        events.extend(call)
        assert [token_id for event in events for token_id in event.chunk.token_ids] == expected
        target.assert_all_free()
    assert "Error" not in caplog.text


def test_a_draft_answers_any_path(draft: RunningDraft, caplog: pytest.LogCaptureFixture) -> None:
    for address in (draft.address, draft.server.admin.address):
        call_every_path(address)
    assert "Error" not in caplog.text


async def count_tasks() -> int:
    """What runs on the event loop."""
    return len(asyncio.all_tasks())
