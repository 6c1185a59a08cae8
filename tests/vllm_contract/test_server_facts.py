"""What routers ask before they send anything: health, the model, the server, its load and its tokenizer."""

import hashlib
import io
import json
import zipfile
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2

from services.engine.config import ConfigError
from services.engine.text.tokenizer import Tokenizer
from services.target.api.stream_writer import StreamWriter
from services.target.vllm_contract.contract import SERVICE
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import as_unary, stream_request
from tests.vllm_contract.asking import PROMPT, ask, contract_request, stub_of

TEXT = "def main(argv):\n    return [wörld]\n"


def health(target: RunningTarget) -> vllm_engine_pb2.HealthCheckResponse:
    return stub_of(target).HealthCheck(vllm_engine_pb2.HealthCheckRequest(), timeout=20)


def test_health_follows_the_model(model: Path) -> None:
    with target_server(model, loads=False) as target:
        assert (health(target).healthy, target.health(SERVICE)) == (False, "NOT_SERVING")
        assert health(target).message == "the model is still loading: 0% of the weights are loaded"
        with pytest.raises(grpc.RpcError) as failure:
            ask(target, contract_request())
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        target.call(target.server.open())
        assert (health(target).healthy, target.health(SERVICE)) == (True, "SERVING")
        target.call(target.server.availability.obstruct("it is being looked at"))
        assert (health(target).healthy, health(target).message) == (False, "it is being looked at")


def test_the_model_is_described(target: RunningTarget) -> None:
    info = stub_of(target).GetModelInfo(vllm_engine_pb2.GetModelInfoRequest(), timeout=20)
    served = target.server._servicer.serving().model
    assert info.served_model_name == info.model_path == served.name
    assert "/" not in info.model_path, "where its files are is not told"
    assert (info.max_context_length, info.vocab_size, info.max_req_input_len) == (
        served.context_length,
        512,
        served.context_length - 1,
    )
    assert [*info.eos_token_ids] == [*served.eos_token_ids]
    assert (info.is_generation, info.supports_vision) == (True, False)
    assert json.loads(info.default_sampling_params_json or "{}") == dict(served.defaults)


def test_the_server_is_described(target: RunningTarget) -> None:
    ask(target, contract_request())
    info = stub_of(target).GetServerInfo(vllm_engine_pb2.GetServerInfoRequest(), timeout=20)
    assert (info.server_type, info.data_parallel_size, info.max_num_seqs) == ("vllm-grpc", 1, 64)
    assert (info.active_requests, info.is_paused) == (0, False)
    assert info.uptime_seconds > 0 < info.last_receive_timestamp
    assert info.constrained_decoding_start == "first_token"


def test_the_load_is_reported(target: RunningTarget) -> None:
    ask(target, contract_request([*range(200, 280)]))
    stub, request = stub_of(target), vllm_engine_pb2.GetLoadsRequest(include=["core", "queues"])
    call = stub.Generate(contract_request(PROMPT, max_tokens=1000), timeout=60)
    next(call)
    told = stub.GetLoads(request, timeout=20)
    (busy,) = told.loads
    call.cancel()
    target.assert_all_free()
    (idle,) = stub.GetLoads(request, timeout=20).loads
    assert (told.dp_rank_count, busy.num_running_reqs, busy.num_waiting_reqs, busy.num_total_reqs) == (1, 1, 0, 1)
    assert 0 < busy.num_used_tokens <= busy.max_total_num_tokens == 64 * target.engine.blocks.block_size
    assert busy.token_usage == busy.num_used_tokens / busy.max_total_num_tokens
    assert (idle.num_running_reqs, idle.num_used_tokens, idle.token_usage) == (0, 0, 0.0)
    assert idle.max_running_requests == 64
    assert 0 <= idle.cache_hit_rate < 1
    assert idle.gen_throughput > 0
    with pytest.raises(grpc.RpcError, match="dp_rank"):
        stub.GetLoads(vllm_engine_pb2.GetLoadsRequest(dp_rank=1), timeout=20)


def test_the_tokenizer_can_be_built_from_the_chunks(target: RunningTarget) -> None:
    chunks = [*stub_of(target).GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=60)]
    data = b"".join(chunk.data for chunk in chunks)
    assert max(len(chunk.data) for chunk in chunks) <= 64 << 10
    assert [chunk.sha256 for chunk in chunks] == [*[""] * (len(chunks) - 1), hashlib.sha256(data).hexdigest()]
    served = target.server._servicer.serving().model
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        built = Tokenizer(archive.read("tokenizer.json").decode())
        settings = json.loads(archive.read("tokenizer_config.json"))
    assert built.encode(TEXT) == served.tokenizer.encode(TEXT)
    assert built.fingerprint() == served.tokenizer.fingerprint()
    assert settings["chat_template"] == served.chat_template.source
    again = [*stub_of(target).GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=60)]
    assert again == chunks


def test_while_the_tokenizer_is_sent_others_get_their_turn(
    target: RunningTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, write, held = target.model.admissions.text_calls, StreamWriter.write, []

    async def look_and_write(writer: StreamWriter, chunk: Message) -> None:
        held.append(places.total)
        await write(writer, chunk)

    monkeypatch.setattr(StreamWriter, "write", look_and_write)
    assert [*stub_of(target).GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=60)]
    assert {*held} == {0}


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("FlushCache", common_pb2.FlushCacheRequest),
        ("StartProfile", common_pb2.StartProfileRequest),
        ("StopProfile", common_pb2.StopProfileRequest),
        ("SubscribeKvEvents", common_pb2.SubscribeKvEventsRequest),
    ],
)
def test_unsupported_methods_are_unimplemented(target: RunningTarget, method: str, request_type: type) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        list(getattr(stub_of(target), method)(request_type(), timeout=20))
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert failure.value.details().startswith("this server ")  # one without --kv-events


def test_the_contract_is_found_by_reflection_and_health(target: RunningTarget) -> None:
    assert SERVICE in ProtoReflectionDescriptorDatabase(target.channel).get_services()
    told = health_pb2_grpc.HealthStub(target.channel).List(health_pb2.HealthListRequest()).statuses
    assert told[SERVICE].status == health_pb2.HealthCheckResponse.SERVING


def test_the_contract_can_be_left_out(model: Path) -> None:
    with target_server(model, vllm_contract=False, loads=False) as target:
        assert SERVICE not in ProtoReflectionDescriptorDatabase(target.channel).get_services()
        with pytest.raises(grpc.RpcError) as failure:
            health(target)
        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_without_its_stubs_the_contract_is_left_out_or_missed(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("services.target.vllm_contract.contract._STUBS", "no_such_package")
    caplog.set_level("DEBUG")
    with target_server(model, loads=False) as target, pytest.raises(grpc.RpcError):
        health(target)
    assert "vLLM's gRPC contract is not served" in caplog.text
    with pytest.raises(ConfigError, match=r"pip install 'outrider\[vllm\]'"), target_server(model, vllm_contract=True):
        pass


def test_the_contracts_calls_are_counted_separately(target: RunningTarget) -> None:
    calls = target.server._server.calls
    ours, theirs = calls["Generate", "OK"], calls[f"{SERVICE}/Generate", "OK"]
    ask(target, contract_request())
    wait_until(lambda: calls[f"{SERVICE}/Generate", "OK"] == theirs + 1)
    assert calls["Generate", "OK"] == ours
    target.stub.Generate(as_unary(stream_request()), timeout=60)
    wait_until(lambda: calls["Generate", "OK"] == ours + 1)
