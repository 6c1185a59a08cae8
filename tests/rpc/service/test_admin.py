"""Admin calls: what operators may ask of a service, and what its callers see of that."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2

import outrider
from outrider.v1 import admin_pb2, generation_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from services.engine.config import ConfigError
from services.service.server_config import ServerConfig
from tests.harness.servers.server import RunningTarget, wait_until
from tests.rpc.harness.administered import admin_of, administered_target
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.held_pass import HeldPass, behind
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import PROMPT, detail, stream, stream_request, violations

LONG = {"stop": {"max_tokens": 400, "ignore_eos": True}}


@pytest.fixture(scope="module")
def administered(model: Path) -> Iterator[tuple[RunningTarget, AdminServiceStub]]:
    with administered_target(model) as pair:
        yield pair
        pair[0].assert_all_free()


def status(admin: AdminServiceStub) -> admin_pb2.GetStatisticsResponse:
    return admin.GetStatistics(admin_pb2.GetStatisticsRequest())


def metrics(admin: AdminServiceStub) -> str:
    return admin.GetMetrics(admin_pb2.GetMetricsRequest()).page


def test_a_drained_server_refuses_new_and_finishes_old_streams(model: Path) -> None:
    predictor = GatePredictor()
    with administered_target(model, predictor=predictor) as (target, admin):
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request())
        events = [next(call)]
        assert admin.Drain(admin_pb2.DrainRequest()).left == 1
        assert target.health() == "NOT_SERVING"
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request())
        assert (failure.value.code(), failure.value.details()) == (
            grpc.StatusCode.UNAVAILABLE,
            "the server is drained",
        )
        assert status(admin).refusal == "the server is drained"
        predictor.gate.set()
        events.extend(call)
        assert events[-1].HasField("finished")
        wait_until(lambda: status(admin).running == 0)
        assert admin.Undrain(admin_pb2.UndrainRequest()).refusal == ""
        assert target.health() == "SERVING"
        assert len(stream(target, stream_request()).token_ids) == 24


def test_requests_are_listed_without_text_and_ended_by_id(model: Path) -> None:
    predictor = GatePredictor(num_tokens=8)
    with administered_target(model, predictor=predictor) as (target, admin):
        predictor.gate.clear()
        with outrider.Client(target.address) as client:
            running = client.stream(PROMPT, request_id="to be ended", max_tokens=400, ignore_eos=True)
            chunks = iter(running)
            next(chunks)
            (listed,) = admin.ListRequests(admin_pb2.ListRequestsRequest()).requests
            assert listed.request_id == "to be ended"
            assert listed.caller
            assert listed.is_running
            assert listed.age_seconds >= listed.queued_seconds >= 0
            assert listed.prompt_tokens == len(running.started.prompt_token_ids)
            assert listed.generated_tokens >= 1
            assert listed.blocks >= 1
            assert PROMPT.split()[1].encode() not in listed.SerializeToString()
            request = admin_pb2.CancelRequestRequest(request_id="to be ended")
            assert admin.CancelRequest(request).cancelled == 1
            predictor.gate.set()
            with pytest.raises(outrider.OutriderError, match="cancelled by those who run the server") as failure:
                list(chunks)
        assert failure.value.code is grpc.StatusCode.ABORTED
        assert failure.value.received.token_ids
        target.assert_all_free()
        assert admin.CancelRequest(request).cancelled == 0


def test_a_cancelled_call_says_why_to_programs(administered: tuple[RunningTarget, AdminServiceStub]) -> None:
    target, admin = administered
    call = target.stub.StreamGenerate(stream_request(request_id="to be ended", **LONG))
    next(call)
    admin.CancelRequest(admin_pb2.CancelRequestRequest(request_id="to be ended"))
    with pytest.raises(grpc.RpcError) as failure:
        list(call)
    info = detail(failure.value, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("REQUEST_CANCELLED", "outrider")


def test_a_flushed_cache_gives_the_same_bytes_anew(administered: tuple[RunningTarget, AdminServiceStub]) -> None:
    target, admin = administered
    request = stream_request([5, 6, 7] * 40)
    answers = [stream(target, request), stream(target, request)]
    found = status(admin).cache.findable_blocks
    assert found >= 3
    flushed = admin.FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest())
    assert (flushed.forgotten_blocks, status(admin).cache.findable_blocks) == (found, 0)
    target.assert_all_free()
    answers.append(stream(target, request))
    assert answers[0].token_ids == answers[1].token_ids == answers[2].token_ids
    assert [each.finished.usage.cached_tokens > 0 for each in answers] == [False, True, False]


def test_a_flush_leaves_running_requests_alone(administered: tuple[RunningTarget, AdminServiceStub]) -> None:
    target, admin = administered
    request = stream_request([9, 8, 7] * 20, **LONG)
    whole, ids = stream(target, request).token_ids, []
    for event in target.stub.StreamGenerate(request):
        ids += event.chunk.token_ids
        admin.FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest())
    assert ids == whole
    target.assert_all_free()


def test_drafts_come_and_go_under_a_running_stream(model: Path, draft: RunningDraft) -> None:
    request = stream_request(speculation={"mode": "SPECULATION_MODE_ALWAYS"}, **LONG)
    with administered_target(model, predictor=None) as (target, admin):
        whole = stream(target, request)
        assert not whole.finished.speculation.predicted
        with ThreadPoolExecutor(1) as thread:
            halfway = HeldPass(target, behind(20))
            streamed = thread.submit(stream, target, request)
            halfway.is_held.wait()
            adding = admin.AddDraft.future(admin_pb2.AddDraftRequest(address=draft.address))
            wait_until(lambda: target.model.drafts.pool.absences == {draft.address: ""})
            halfway.may_go_on.set()
            assert [added.address for added in adding.result().drafts] == [draft.address]
            assert streamed.result().token_ids == whole.token_ids
            assert streamed.result().finished.speculation.accepted > 0
        assert [each.absence for each in status(admin).drafts] == [""]
        assert target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).has_draft
        of_link = f'{{draft="{draft.address}",model_name="{target.model.name}"}}'
        assert f"outrider:draft_link_up{of_link} 1.0" in metrics(admin)
        with pytest.raises(grpc.RpcError) as failure:
            admin.AddDraft(admin_pb2.AddDraftRequest(address=draft.address))
        assert "is one of the drafts already" in violations(failure.value)["address"]
        ids: list[int] = []
        for number, event in enumerate(target.stub.StreamGenerate(request)):
            ids += event.chunk.token_ids
            if number == 3:
                assert not admin.RemoveDraft(admin_pb2.RemoveDraftRequest(address=draft.address)).drafts
        assert draft.address not in metrics(admin)
        assert not target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).has_draft
        assert ids == whole.token_ids
        target.assert_all_free()
    draft.assert_all_free()


@pytest.mark.parametrize(("address", "said"), [("nowhere", "it must be HOST:PORT"), ("a:1", "is none of the drafts")])
def test_removing_an_unknown_draft_is_refused(
    administered: tuple[RunningTarget, AdminServiceStub], address: str, said: str
) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        administered[1].RemoveDraft(admin_pb2.RemoveDraftRequest(address=address))
    assert said in violations(failure.value)["address"]


def test_limits_hold_as_soon_as_they_are_set(model: Path) -> None:
    predictor = GatePredictor()
    with administered_target(model, predictor=predictor) as (target, admin):
        before = admin.SetLimits(admin_pb2.SetLimitsRequest()).limits
        assert before.max_queue == 256
        limits = admin_pb2.AdjustableLimits(max_streams_per_caller=1, reader_timeout=9.5)
        after = admin.SetLimits(admin_pb2.SetLimitsRequest(limits=limits)).limits
        assert (after.max_queue, after.max_streams_per_caller, after.reader_timeout) == (256, 1, 9.5)
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request())
        next(call)
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request())
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        bad = admin_pb2.AdjustableLimits(max_queue=7, reader_timeout=0)
        with pytest.raises(grpc.RpcError) as failure:
            admin.SetLimits(admin_pb2.SetLimitsRequest(limits=bad))
        assert "reader_timeout is 0" in violations(failure.value)["limits"]
        assert status(admin).limits == after
        default = admin_pb2.AdjustableLimits(max_streams_per_caller=0)
        assert admin.SetLimits(admin_pb2.SetLimitsRequest(limits=default)).limits.max_streams_per_caller > 1
        predictor.gate.set()
        assert len(stream(target, stream_request()).token_ids) == 24
        list(call)


def test_the_log_level_changes_until_a_reload(administered: tuple[RunningTarget, AdminServiceStub]) -> None:
    target, admin = administered
    root, grpc_logger = logging.getLogger(), logging.getLogger("grpc")
    levels = root.level, grpc_logger.level
    try:
        admin.SetLogLevel(admin_pb2.SetLogLevelRequest(level=admin_pb2.LOG_LEVEL_ERROR))
        assert status(admin).log_level == admin_pb2.LOG_LEVEL_ERROR
        target.server.reload.add("log level", lambda: root.setLevel(logging.INFO))
        target.server.reload.add("what is broken", lambda: 1 // 0)
        (problem,) = admin.Reload(admin_pb2.ReloadRequest()).problems
        assert problem.startswith("what is broken: ")
        assert status(admin).log_level == admin_pb2.LOG_LEVEL_INFO
        with pytest.raises(grpc.RpcError) as failure:
            admin.SetLogLevel(admin_pb2.SetLogLevelRequest())
        assert "LOG_LEVEL_WARNING" in violations(failure.value)["level"]
    finally:
        root.setLevel(levels[0])
        grpc_logger.setLevel(levels[1])


def test_the_services_own_address_serves_no_admin_calls(target: RunningTarget) -> None:
    assert target.server.admin.address == ""
    with admin_of(target.address) as admin, pytest.raises(grpc.RpcError) as failure:
        status(admin)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("address", ["0.0.0.0:0", "example.org:50053", "[::]:1", "10.0.0.1:1"])
def test_the_admin_address_must_be_of_this_machine(address: str) -> None:
    with pytest.raises(ConfigError, match="it must be an address of this machine"):
        ServerConfig(admin_listen=address)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:1", "unix:/run/outrider"])
def test_this_machine_has_several_addresses(address: str) -> None:
    assert ServerConfig(admin_listen=address).admin_listen == address


def test_metrics_over_rpc_are_those_for_prometheus(
    administered: tuple[RunningTarget, AdminServiceStub], draft: RunningDraft
) -> None:
    target, admin = administered
    stream(target, stream_request())
    told = metrics(admin)
    assert 'outrider:calls_total{code="OK",method="StreamGenerate"}' in told
    assert "outrider:generation_tokens_total" in told
    assert "process_open_fds" in told
    with admin_of(draft.server.admin.address) as of_draft:
        assert "outrider:draft_links{" in metrics(of_draft)


def test_a_draft_is_administered_too(draft: RunningDraft) -> None:
    with admin_of(draft.server.admin.address) as admin:
        told = status(admin)
        assert (told.refusal, told.running, told.cache.total_blocks) == ("", 0, 24)
        assert not told.HasField("limits")
        admin.FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest())
        assert status(admin).cache.findable_blocks == 0
        admin.Drain(admin_pb2.DrainRequest())
        assert status(admin).refusal == "the server is drained"
        admin.Undrain(admin_pb2.UndrainRequest())
        with pytest.raises(grpc.RpcError) as failure:
            admin.ListRequests(admin_pb2.ListRequestsRequest())
        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
