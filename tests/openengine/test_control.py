"""What routers ask before they send anything: the server, its models, its load, its health, its adapters."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from outrider.v1 import common_pb2, generation_pb2
from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from services.target.openengine.contract import RELEASE, SERVICES
from services.target.openengine.v1 import openengine_pb2
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.openengine.asking import ask, contract_request, control, inference
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import stream, stream_request, violations

STATES = openengine_pb2.HealthState


def server_info(target: RunningTarget) -> openengine_pb2.ServerInfo:
    return control(target).GetServerInfo(openengine_pb2.GetServerInfoRequest(), timeout=20)


def health(target: RunningTarget, metadata: Any = None, **fields: Any) -> tuple[str, dict[str, tuple[str, str]]]:
    """The state, and that of each check with its message."""
    request = openengine_pb2.HealthRequest(**fields)
    told = control(target).Health(request, timeout=60, metadata=metadata)
    checks = {check.name: (_name(check.state), check.message) for check in told.checks}
    return _name(told.state), checks


def _name(state: Any) -> str:
    return STATES.Name(state).removeprefix("HEALTH_STATE_")


def test_the_server_is_described(target: RunningTarget) -> None:
    info, facts = server_info(target), target.engine.facts
    assert (info.engine_name, info.engine_role) == ("outrider", openengine_pb2.ENGINE_ROLE_AGGREGATED)
    assert (info.schema_revision, info.minimum_client_revision, info.schema_release) == (1, 1, RELEASE)
    assert [*info.supported_models] == [target.model.name]
    assert (info.capacity.kv_block_size, info.capacity.total_kv_blocks) == (facts.block_size, facts.num_blocks)
    assert (info.capacity.max_running_requests, info.capacity.HasField("max_loras")) == (64, False)
    assert info.parallelism.tensor_parallel_size == info.parallelism.decode_context_parallel_size == 1
    assert info.kv_connector.HasField("enabled")
    assert not info.kv_connector.enabled
    assert info.extra["fingerprint"] == str(target.server._servicer.serving().model.fingerprint)
    assert info.instance_id == server_info(target).instance_id != ""


def test_the_model_is_described_by_its_name(target: RunningTarget, loras: dict[str, Path]) -> None:
    served = target.server._servicer.serving().model

    def model_info(name: str, of: RunningTarget = target) -> openengine_pb2.ModelInfo:
        return control(of).GetModelInfo(openengine_pb2.GetModelInfoRequest(model=name), timeout=20)

    info = model_info(served.name)
    assert info.model_id == info.served_model_name == served.name
    assert (info.max_context_length, info.max_output_tokens) == (served.context_length, served.context_length - 1)
    assert "/" not in str(MessageToDict(info.extra)), "where its files are is not told"
    assert info.extra["vocab_size"] == 512
    told = info.generation
    assert (told.prompt_logprobs.max_top_n, told.output_logprobs.max_top_n, told.max_num_sequences) == (20, 20, 16)
    assert told.supports_priority
    assert told.supports_cache_salt
    assert not info.supports_lora
    with target_server(served_folder(target), loras=loras) as adapted:
        by_adapter = model_info("a", adapted)
        assert (by_adapter.model_id, by_adapter.supports_lora) == ("a", True)
        assert by_adapter.extra["fingerprint"] != model_info(adapted.model.name, adapted).extra["fingerprint"]
    with pytest.raises(grpc.RpcError) as failure:
        model_info("other")
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as failure:
        model_info("")
    assert violations(failure.value) == {"model": "is empty; allowed: one of GetServerInfo's supported_models"}


def served_folder(target: RunningTarget) -> Path:
    model = target.model.config.model
    assert isinstance(model, Path)
    return model


def test_what_the_model_is_said_to_support_is_served(target: RunningTarget) -> None:
    """Each form that is listed is followed; the number of candidates is the largest that is allowed."""
    request = openengine_pb2.GetModelInfoRequest(model=target.model.name)
    told = control(target).GetModelInfo(request, timeout=20).generation
    guides: dict[int, dict[str, Any]] = {
        openengine_pb2.GUIDED_DECODING_MODE_JSON_SCHEMA: {"json_schema": '{"const": 7}'},
        openengine_pb2.GUIDED_DECODING_MODE_REGEX: {"regex": "7"},
        openengine_pb2.GUIDED_DECODING_MODE_EBNF_GRAMMAR: {"ebnf_grammar": 'root ::= "7"'},
        openengine_pb2.GUIDED_DECODING_MODE_CHOICE: {"choice": {"choices": ["7"]}},
    }
    object_mode = openengine_pb2.GUIDED_DECODING_MODE_JSON_OBJECT
    assert {*told.guided_decoding.modes} == {*guides, object_mode}
    for guide in guides.values():
        assert ask(target, contract_request(guided=guide)).answer.text == "7"
    assert ask(target, contract_request(guided={"json_object": {}})).answer.text.startswith("{")
    response = {"output_candidates": {"top_n": told.output_logprobs.max_top_n}}
    assert {len(token.candidates) for token in ask(target, contract_request(response=response)).answer.tokens} == {20}


def test_the_load_is_reported(model: Path) -> None:
    gate = GatePredictor()
    with target_server(model, predictor=gate, max_sequences=1) as target:
        gate.gate.clear()
        calls = [inference(target).Generate(contract_request([*range(80)]), timeout=60)]
        next(calls[0])
        calls.append(inference(target).Generate(contract_request(), timeout=60))
        wait_until(lambda: target.model.statistics.num_live == 2)
        busy = control(target).GetLoad(openengine_pb2.GetLoadRequest(include_per_rank=True), timeout=20)
        gate.gate.set()
        for call in calls:
            list(call)
        target.assert_all_free()
        idle = control(target).GetLoad(openengine_pb2.GetLoadRequest(), timeout=20)
    (rank,) = busy.ranks
    assert (busy.running_requests, rank.running_requests, rank.data_parallel_rank) == (1, 1, 0)
    assert 0 < rank.used_kv_blocks == busy.used_kv_blocks < busy.total_kv_blocks == 64
    assert (idle.running_requests, idle.queued_requests, idle.used_kv_blocks, len(idle.ranks)) == (0, 0, 0, 0)
    assert idle.HasField("queued_requests")
    assert idle.instance_id == busy.instance_id
    assert idle.timestamp_unix_nanos > busy.timestamp_unix_nanos


def test_health_follows_the_model(model: Path) -> None:
    with target_server(model, loads=False) as target:
        assert {target.health(name) for name in SERVICES} == {"NOT_SERVING"}
        state, checks = health(target, include_inference_probe=True)
        assert (state, checks["model"][0], checks["inference_probe"][0]) == ("STARTING", "STARTING", "NOT_READY")
        assert server_info(target).HasField("capacity") is False
        with pytest.raises(grpc.RpcError) as failure:
            control(target).GetLoad(openengine_pb2.GetLoadRequest(), timeout=20)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        target.call(target.server.open())
        assert health(target) == ("READY", {"model": ("READY", "serving")})
        assert {target.health(name) for name in SERVICES} == {"SERVING"}
        target.call(target.server.availability.obstruct("it is being looked at"))
        assert health(target) == ("NOT_READY", {"model": ("NOT_READY", "it is being looked at")})


def test_a_probe_generates_a_token(target: RunningTarget) -> None:
    before = target.engine.figures().num_tokens
    state, checks = health(target, include_inference_probe=True, model=target.model.name)
    assert (state, checks["inference_probe"]) == ("READY", ("READY", "a token was generated"))
    assert target.engine.figures().num_tokens == before + 1
    with pytest.raises(grpc.RpcError) as failure:
        health(target, model="other", include_inference_probe=True)
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    assert health(target, model="other")[0] == "READY", "plain health is of the server, and tells no names"


def test_a_probe_without_a_token_is_not_ready(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    async def generate(*_: object) -> generation_pb2.GenerateResponse:
        finished = generation_pb2.Finished(reason=common_pb2.FINISH_REASON_INVALID_LOGITS)
        return generation_pb2.GenerateResponse(finished=finished)

    monkeypatch.setattr(target.server._servicer, "Generate", generate)
    state, checks = health(target, include_inference_probe=True)
    assert (state, checks["inference_probe"][0]) == ("NOT_READY", "NOT_READY")
    assert "INVALID_LOGITS" in checks["inference_probe"][1]


def test_a_full_server_is_degraded(model: Path) -> None:
    gate = GatePredictor()
    full = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=0)
    with target_server(model, predictor=gate, server=full, max_sequences=1) as target:
        gate.gate.clear()
        call = inference(target).Generate(contract_request(), timeout=60)
        next(call)
        assert health(target)[0] == "READY"
        assert health(target, include_inference_probe=True)[0] == "DEGRADED"
        gate.gate.set()
        list(call)


@pytest.mark.parametrize(
    ("role", "state"),
    [("ENGINE_ROLE_AGGREGATED", "READY"), ("ENGINE_ROLE_PREFILL", "NOT_READY"), ("ENGINE_ROLE_DECODE", "NOT_READY")],
)
def test_another_role_is_not_ready(target: RunningTarget, role: str, state: str) -> None:
    told, checks = health(target, role=role)
    assert (told, checks["role"][0], checks["model"][0]) == (state, state, "READY")


def test_a_probe_needs_a_token_and_plain_health_none(model: Path, tmp_path: Path) -> None:
    made = [new_token(name, [scope]) for name, scope in (("a", Scope.GENERATE), ("b", Scope.ADMIN))]
    (tmp_path / "tokens").write_text("".join(f"{line}\n" for _, line in made))
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    generate, admin = ([("authorization", f"Bearer {token}")] for token, _ in made)
    with target_server(model, server=config) as target:
        assert health(target)[0] == "READY"
        assert health(target, metadata=generate, include_inference_probe=True)[0] == "READY"
        for metadata, code in ((None, "UNAUTHENTICATED"), (admin, "PERMISSION_DENIED")):
            with pytest.raises(grpc.RpcError) as failure:
                health(target, metadata=metadata, include_inference_probe=True)
            assert failure.value.code().name == code


def test_the_services_are_found_by_reflection(target: RunningTarget) -> None:
    assert {*SERVICES} <= {*ProtoReflectionDescriptorDatabase(target.channel).get_services()}


@pytest.fixture(scope="module")
def folders(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Adapters of the model in folders `one` and `two`, and none in `other`."""
    path = tmp_path_factory.mktemp("folders")
    for seed, name in enumerate(("one", "two")):
        write_adapter(path / name, model, seed=seed)
    (path / "other").mkdir()
    return path


class Adaptable:
    """A target that needs tokens, and a token for everything."""

    def __init__(self, target: RunningTarget, token: str) -> None:
        self.target, self.metadata = target, [("authorization", f"Bearer {token}")]

    def load(self, lora_id: int, lora_name: str, source_path: object) -> openengine_pb2.LoadLoraResponse:
        adapter = openengine_pb2.LoraAdapter(lora_id=lora_id, lora_name=lora_name, source_path=str(source_path))
        request = openengine_pb2.LoadLoraRequest(adapter=adapter)
        return control(self.target).LoadLora(request, timeout=60, metadata=self.metadata)

    def unload(self, lora_name: str) -> int:
        request = openengine_pb2.UnloadLoraRequest(lora_name=lora_name)
        return control(self.target).UnloadLora(request, timeout=20, metadata=self.metadata).adapter.lora_id

    def listed(self) -> dict[str, int]:
        told = control(self.target).ListLoras(openengine_pb2.ListLorasRequest(), timeout=20, metadata=self.metadata)
        return {adapter.lora_name: adapter.lora_id for adapter in told.adapters}

    def text(self, **fields: Any) -> str:
        return ask(self.target, contract_request(**fields), metadata=self.metadata).answer.text


@pytest.fixture
def adaptable(model: Path, folders: Path, loras: dict[str, Path], tmp_path: Path) -> Iterator[Adaptable]:
    token, line = new_token("a", [*Scope])
    (tmp_path / "tokens").write_text(line)
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    with target_server(model, lora_dir=folders, loras=loras, server=config) as target:
        yield Adaptable(target, token)
        target.assert_all_free()


def test_an_adapter_is_loaded_used_and_unloaded(adaptable: Adaptable, model: Path, folders: Path) -> None:
    assert adaptable.listed() == {"a": 1}
    plain = adaptable.text()
    assert not adaptable.load(7, "mine", folders / "one").already_loaded
    again = adaptable.load(7, "mine", folders / "two" / ".." / "one")
    assert (again.already_loaded, again.adapter.lora_id) == (True, 7)
    assert adaptable.listed() == {"a": 1, "mine": 7}
    with target_server(model, loras={"mine": folders / "one"}) as other:
        expected = stream(other, stream_request(contract_request().token_ids.ids, lora="mine")).text
    assert adaptable.text(lora_name="mine") == expected != plain
    assert adaptable.unload("mine") == 7
    assert adaptable.listed() == {"a": 1}
    with pytest.raises(grpc.RpcError) as failure:
        adaptable.unload("mine")
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    assert not adaptable.load(7, "mine", folders / "two").already_loaded


def test_an_adapter_that_differs_from_one_there_is_refused(adaptable: Adaptable, folders: Path) -> None:
    adaptable.load(7, "mine", folders / "one")
    for wanted in ((8, "mine", "one"), (7, "other", "one"), (7, "mine", "two"), (1, "other", "one")):
        with pytest.raises(grpc.RpcError, match="is loaded: its name, its number or its folder") as failure:
            adaptable.load(wanted[0], wanted[1], folders / wanted[2])
        assert failure.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert adaptable.listed() == {"a": 1, "mine": 7}


def test_numbers_that_are_free_again_are_given_again(adaptable: Adaptable, folders: Path) -> None:
    adaptable.unload("a")
    adaptable.load(1, "b", folders / "one")
    target = adaptable.target
    target.call(target.server._lora_changes.load(target.model, target.engine, "otherwise", str(folders / "two")))
    assert adaptable.listed() == {"b": 1, "otherwise": 2}
    adaptable.unload("b")
    adaptable.load(2**63 - 1, "large", folders / "one")
    target.call(target.server._lora_changes.load(target.model, target.engine, "more", str(folders / "two")))
    assert adaptable.listed() == {"otherwise": 2, "large": 2**63 - 1, "more": 1}


def test_a_caller_that_gives_up_finds_its_adapter_later(adaptable: Adaptable, folders: Path) -> None:
    goes_on, is_begun = threading.Event(), threading.Event()
    loading = adaptable.target.engine.load_adapter

    def load_late(*arguments: Any) -> Any:
        is_begun.set()
        goes_on.wait()
        return loading(*arguments)

    adaptable.target.engine.load_adapter = load_late  # type: ignore[method-assign]
    adapter = openengine_pb2.LoraAdapter(lora_id=7, lora_name="mine", source_path=str(folders / "one"))
    request = openengine_pb2.LoadLoraRequest(adapter=adapter)
    call = control(adaptable.target).LoadLora.future(request, timeout=60, metadata=adaptable.metadata)
    is_begun.wait()
    call.cancel()
    assert adaptable.listed() == {"a": 1}
    goes_on.set()
    assert adaptable.load(7, "mine", folders / "one").already_loaded
    assert adaptable.listed() == {"a": 1, "mine": 7}


def test_what_is_wrong_with_an_adapter_is_named(adaptable: Adaptable, folders: Path) -> None:
    for wanted, field, said in (
        ((0, "b", folders / "one"), "adapter.lora_id", "is 0; allowed: at least 1"),
        ((2, "", folders / "one"), "adapter.lora_name", "is empty"),
        ((2, "b/c", folders / "one"), "adapter.lora_name", "is 'b/c'"),
        ((2, adaptable.target.model.name, folders / "one"), "adapter.lora_name", "is the name of a model"),
        ((2, "b", "one"), "adapter.source_path", "is 'one'; allowed: an absolute path"),
        ((2, "b", "/a\0b"), "adapter.source_path", "null"),
        ((2, "b", folders / "other"), "adapter.source_path", "other"),
        ((2, "b", folders.parent), "adapter.source_path", "is not below the folder"),
    ):
        with pytest.raises(grpc.RpcError) as failure:
            adaptable.load(*wanted)
        assert said in violations(failure.value)[field]


def test_without_tokens_or_a_folder_no_adapter_is_changed(model: Path, loras: dict[str, Path], tmp_path: Path) -> None:
    """Else all who can generate could change what is served."""
    with target_server(model, loras=loras, lora_dir=loras["a"].parent) as target:
        for method, request in (
            ("LoadLora", openengine_pb2.LoadLoraRequest()),
            ("UnloadLora", openengine_pb2.UnloadLoraRequest(lora_name="a")),
            ("ListLoras", openengine_pb2.ListLorasRequest()),
        ):
            with pytest.raises(grpc.RpcError, match="--tokens-file") as failure:
                getattr(control(target), method)(request, timeout=20)
            assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert ask(target, contract_request(lora_name="a")).answer.text
    token, line = new_token("a", [*Scope])
    (tmp_path / "tokens").write_text(line)
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    with target_server(model, loras=loras, server=config) as target:
        for change in (
            lambda: Adaptable(target, token).load(1, "a", loras["a"]),
            lambda: Adaptable(target, token).unload("a"),
        ):
            with pytest.raises(grpc.RpcError, match="--lora-dir") as failure:
                change()
            assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert Adaptable(target, token).listed() == {"a": 1}


def test_events_have_one_source(model: Path, target: RunningTarget) -> None:
    wanted = openengine_pb2.GetKvEventSourcesRequest(data_parallel_ranks=[0])
    assert not control(target).GetKvEventSources(wanted, timeout=20).sources
    with target_server(model, kv_events=True) as told:
        (source,) = control(told).GetKvEventSources(wanted, timeout=20).sources
    assert (source.transport, source.encoding, source.HasField("data_parallel_rank")) == ("grpc", "protobuf", True)
    wanted.data_parallel_ranks.append(1)
    with pytest.raises(grpc.RpcError) as failure:
        control(target).GetKvEventSources(wanted, timeout=20)
    assert violations(failure.value) == {"data_parallel_ranks[1]": "is 1; allowed: 0"}
