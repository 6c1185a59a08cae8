"""What becomes of streams and of the service when one of its processes ends, hangs or is to end."""

import gc
import os
import re
import signal
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

import outrider
from outrider.v1 import admin_pb2, generation_pb2
from services.service.life.exit_code import ExitCode
from services.service.server_config import ServerConfig
from services.target.engines import remote_engine
from services.target.engines.remote_engine import RemoteEngine
from tests.harness.processes.child_processes import has_ended
from tests.harness.processes.warm_commands import warm_process
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.engine_process.conftest import Split
from tests.rpc.engine_process.faults import break_down, hang
from tests.rpc.harness.administered import admin_of
from tests.rpc.harness.commands import SMALL
from tests.rpc.harness.requests import PROMPT, stream, stream_request

LONG = {"max_tokens": 1900, "ignore_eos": True}
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]


@contextmanager
def unfinished(target: RunningTarget, **fields: Any) -> Iterator[Any]:
    """A stream that cannot end before it is read: its records do not fit what lies between the engine and a reader."""
    with grpc.insecure_channel(target.address, NARROW) as channel:
        call = type(target.stub)(channel).StreamGenerate(
            stream_request(stop=LONG, output={"top_candidates": 20}, **fields)
        )
        next(event for event in call if event.HasField("chunk"))  # `started` may come before the first pass
        yield call


def engine_of(target: RunningTarget) -> RemoteEngine:
    assert isinstance(target.model.engine, RemoteEngine)
    return target.model.engine


def consume(call: Iterable[object]) -> None:
    """Read a stream to its end."""
    for _ in call:
        continue


def test_cancelling_drops_sequences_and_frees_their_blocks(split: Split) -> None:
    with ExitStack() as stack:
        calls = [stack.enter_context(unfinished(split.target)) for _ in range(3)]
        listed = split.admin.ListRequests(admin_pb2.ListRequestsRequest(), timeout=60).requests
        assert len(listed) == split.statistics.running == 3
        assert all(request.is_running and request.blocks and request.computed_tokens for request in listed)
        for call in calls[:2]:
            call.cancel()
        wait_until(lambda: split.statistics.running == 1)
        (left,) = split.admin.ListRequests(admin_pb2.ListRequestsRequest(), timeout=60).requests
        assert split.admin.CancelRequest(admin_pb2.CancelRequestRequest(request_id=left.request_id)).cancelled == 1
        with pytest.raises(grpc.RpcError, match="cancelled by those who run the server"):
            consume(calls[2])


def test_a_call_that_goes_before_its_grammar_leaves_nothing(split: Split) -> None:
    grammar = {"json_schema": '{"type": "object", "properties": {"a": {"type": "string"}}}'}
    for _ in range(5):
        split.target.stub.StreamGenerate(stream_request(grammar=grammar, stop=LONG)).cancel()
        call = split.target.stub.StreamGenerate(stream_request(grammar=grammar, stop=LONG))
        call.initial_metadata()
        call.cancel()


def test_a_session_holds_its_blocks_until_it_is_deleted(split: Split) -> None:
    name, ids = "kept", [*range(30, 100)]
    split.target.stub.CreateSession(
        generation_pb2.CreateSessionRequest(name=name, prompt={"token_ids": {"ids": ids}}), timeout=60
    )
    cache = split.statistics.cache
    assert cache.total_blocks - cache.free_blocks == (len(ids) - 1) // cache.block_size
    assert split.admin.FlushPrefixCache(admin_pb2.FlushPrefixCacheRequest(), timeout=60).forgotten_blocks >= 2
    answer = stream(split.target, stream_request({"text": ""}, session=name))
    assert answer.started.cached_tokens == (len(ids) - 1) // cache.block_size * cache.block_size
    split.target.stub.DeleteSession(generation_pb2.DeleteSessionRequest(name=name), timeout=60)


def test_adapters_come_and_go(split: Split) -> None:
    folder = split.admin.LoadLora(admin_pb2.LoadLoraRequest(name="later", folder="a"), timeout=60)
    assert "later" in folder.loras
    with unfinished(split.target, lora="later"):
        assert split.admin.UnloadLora(admin_pb2.UnloadLoraRequest(name="later")).left == 1
    split.wait_until_free()
    again = split.admin.LoadLora(admin_pb2.LoadLoraRequest(name="later", folder="a"), timeout=60)
    assert "later" in again.loras
    assert split.admin.UnloadLora(admin_pb2.UnloadLoraRequest(name="later")).left == 0


def test_an_adapter_that_is_none_is_refused_by_its_folder(split: Split) -> None:
    with pytest.raises(grpc.RpcError, match="folder"):
        split.admin.LoadLora(admin_pb2.LoadLoraRequest(name="none", folder="missing"), timeout=60)


def test_metrics_count_what_both_processes_do(split: Split) -> None:
    labels = f'{{model_name="{split.target.model.name}"}}'
    before = split.metric(f"outrider:sequence_passes_total{labels}")
    memory = split.metric("process_resident_memory_bytes")
    stream(split.target, stream_request())
    wait_until(lambda: split.metric(f"outrider:sequence_passes_total{labels}") == before + 24)
    own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert memory > own


def test_an_engine_that_is_killed_ends_streams_with_a_reason(model: Path) -> None:
    with target_server(model, own_process=True) as target, unfinished(target) as call:
        ended = target.begin(target.server.wait_failed())
        os.kill(engine_of(target).process_id, signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as failure:
            consume(call)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert failure.value.details() == "the engine has failed"
        assert ended.result(60) is ExitCode.ENGINE_FAILED
        assert target.health() == "NOT_SERVING"


def test_a_request_in_preparation_when_the_engine_dies(model: Path) -> None:
    with target_server(model, own_process=True) as target:
        grammar = {"choice": {"texts": ["yes", "no"]}}
        assert stream(target, stream_request(grammar=grammar)).text in ("yes", "no")
        os.kill(process_id := engine_of(target).process_id, signal.SIGSTOP)
        call = target.stub.StreamGenerate(stream_request(grammar=grammar))
        wait_until(lambda: engine_of(target)._asked)
        os.kill(process_id, signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as failure:
            consume(call)
        assert (failure.value.code(), failure.value.details()) == (grpc.StatusCode.UNAVAILABLE, "the engine has failed")


def test_drafts_that_were_added_are_there_after_a_reload(model: Path) -> None:
    config = ServerConfig(listen="127.0.0.1:0", admin_listen="127.0.0.1:0", drain_seconds=0)
    with (
        target_server(model, server=config, own_process=True, drafts=["127.0.0.1:1"]) as target,
        admin_of(target.server.admin.address) as admin,
    ):
        admin.AddDraft(admin_pb2.AddDraftRequest(address="127.0.0.1:2"), timeout=60)
        admin.RemoveDraft(admin_pb2.RemoveDraftRequest(address="127.0.0.1:1"), timeout=60)
        target.call(target.model.close())
        target.call(target.model.open())
        drafts = admin.GetStatistics(admin_pb2.GetStatisticsRequest(), timeout=60).drafts
        assert [draft.address for draft in drafts] == ["127.0.0.1:2"]


def test_an_unloaded_engine_leaves_nothing_here(model: Path) -> None:
    with target_server(model, own_process=True) as target:
        stream(target, stream_request())
        engine = weakref.ref(engine_of(target))
        gc.collect()
        gc.disable()  # it must not wait for that
        try:
            target.call(target.model.close())
            wait_until(lambda: engine() is None)
        finally:
            gc.enable()


def test_an_engine_whose_step_fails_ends_streams_with_a_reason(model: Path) -> None:
    with target_server(model, own_process=True) as target, unfinished(target) as call:
        ended = target.begin(target.server.wait_failed())
        target.call(engine_of(target).ask(break_down))
        with pytest.raises(grpc.RpcError) as failure:
            consume(call)
        assert (failure.value.code(), failure.value.details()) == (grpc.StatusCode.UNAVAILABLE, "the engine has failed")
        assert ended.result(60) is ExitCode.ENGINE_FAILED


def test_an_engine_that_hangs_is_noticed_and_ended(model: Path) -> None:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, hang_seconds=1.0)
    with target_server(model, server=config, own_process=True) as target, unfinished(target) as call:
        ended, process_id = target.begin(target.server.wait_failed()), engine_of(target).process_id
        target.call(engine_of(target).ask(hang))
        wait_until(lambda: target.health() == "NOT_SERVING")
        with pytest.raises(grpc.RpcError) as failure:
            consume(call)
        assert failure.value.details() == "the engine has failed"
        assert ended.result(60) is ExitCode.ENGINE_HUNG
        wait_until(lambda: has_ended(process_id))


def test_an_engine_that_goes_on_after_a_pause_goes_on_serving(model: Path) -> None:
    request = stream_request(stop={"max_tokens": 400, "ignore_eos": True})
    with target_server(model, own_process=True) as target:
        expected = stream(target, request)
        call = target.stub.StreamGenerate(request)
        next(call)
        os.kill(engine_of(target).process_id, signal.SIGSTOP)
        os.kill(engine_of(target).process_id, signal.SIGCONT)
        assert [token_id for event in call for token_id in event.chunk.token_ids] == expected.token_ids
        assert target.health() == "SERVING"


def test_an_engine_that_does_not_answer_is_killed_at_the_end(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_engine, "_LAST_SECONDS", 0.1)
    with target_server(model, own_process=True) as target:
        os.kill(process_id := engine_of(target).process_id, signal.SIGSTOP)
    assert has_ended(process_id)


def test_the_engine_ends_with_its_service(model: Path) -> None:
    with target_server(model, own_process=True) as target:
        process_id = engine_of(target).process_id
        assert not has_ended(process_id)
    assert has_ended(process_id)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_of_a_target_that_ends(model: Path, number: signal.Signals) -> None:
    arguments = ["target", "--model", str(model), *SMALL, "--listen", "127.0.0.1:0", "--fronts", "1"]
    with warm_process(arguments) as command:
        wait_until(lambda: command.stdout.read_text().endswith("serving\n"))
        address = command.stdout.read_text().splitlines()[0].removeprefix("listening on ")
        with outrider.Client(address) as client:
            assert client.generate(PROMPT, max_tokens=4, seed=5, ignore_eos=True).token_ids
        found = re.findall(r"the engine has process (\d+)", command.stderr.read_text())
        (process_id,) = map(int, found)
        assert not has_ended(process_id)
        command.process.send_signal(number)
        command.process.wait(60)
        wait_until(lambda: has_ended(process_id))


@pytest.mark.process
def test_a_model_that_cannot_be_loaded_is_named_as_ever(tmp_path: Path) -> None:
    with warm_process(["target", "--model", str(tmp_path), "--listen", "127.0.0.1:0", "--fronts", "1"]) as command:
        assert command.process.wait(60) == 1
        assert "outrider target: " in command.stderr.read_text()
        assert "Traceback" not in command.stderr.read_text()
