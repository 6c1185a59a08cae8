"""Adapters that come and go while a target serves, as its callers and its operators see it."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import outrider
from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.administered import administered_target
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import stream, stream_request, violations

SAMPLING = {"seed": 3, "temperature": 1.0}


@pytest.fixture(scope="module")
def folders(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Adapters of the model in folders `a` and `b`, and in `other` one of another model's shapes."""
    path = tmp_path_factory.mktemp("folders")
    for seed, name in enumerate(("a", "b")):
        write_adapter(path / name, model, seed=seed)
    (path / "other").mkdir()
    return path


@pytest.fixture
def pair(model: Path, folders: Path) -> Iterator[tuple[RunningTarget, AdminServiceStub]]:
    with administered_target(model, lora_dir=folders) as (target, admin):
        yield target, admin
        target.assert_all_free()


def load(admin: AdminServiceStub, name: str, folder: str) -> list[str]:
    return [*admin.LoadLora(admin_pb2.LoadLoraRequest(name=name, folder=folder)).loras]


def unload(admin: AdminServiceStub, name: str) -> admin_pb2.UnloadLoraResponse:
    return admin.UnloadLora(admin_pb2.UnloadLoraRequest(name=name))


def answer(target: RunningTarget, lora: str) -> tuple[str, list[int]]:
    told = stream(target, stream_request(lora=lora, sampling=SAMPLING))
    return told.started.fingerprint, told.token_ids


def test_an_adapter_loaded_later_answers_as_one_from_the_start(
    pair: tuple[RunningTarget, AdminServiceStub], model: Path, folders: Path
) -> None:
    target, admin = pair
    plain = stream(target, stream_request(sampling=SAMPLING)).token_ids
    with pytest.raises(grpc.RpcError) as failure:
        answer(target, "one")
    assert violations(failure.value) == {"lora": "'one' is not loaded; allowed: none, the model has no adapters"}
    assert load(admin, "one", "a") == ["one"]
    assert load(admin, "two", "b") == ["one", "two"]
    with target_server(model, loras={"one": folders / "a", "two": folders / "b"}) as whole:
        for name in ("one", "two"):
            assert answer(target, name) == answer(whole, name)
            assert answer(target, name)[1] != plain
    with outrider.Client(target.address) as client:
        assert [lora.name for lora in client.model_info().loras] == ["one", "two"]


def test_a_name_reused_for_another_adapter_shares_no_cache(
    pair: tuple[RunningTarget, AdminServiceStub], model: Path, folders: Path
) -> None:
    target, admin = pair
    answers = []
    for folder in ("a", "b"):
        load(admin, "name", folder)
        answers.append(answer(target, "name"))
        assert unload(admin, "name") == admin_pb2.UnloadLoraResponse(loras=[], left=0)
        with target_server(model, loras={"name": folders / folder}) as alone:
            assert answers[-1] == answer(alone, "name")
    assert answers[0] != answers[1]


def test_a_running_stream_keeps_an_adapter_that_is_unloaded(model: Path, folders: Path) -> None:
    predictor = GatePredictor()
    with administered_target(model, predictor=predictor, lora_dir=folders) as (target, admin):
        load(admin, "name", "a")
        expected = answer(target, "name")
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request(lora="name", sampling=SAMPLING))
        started = next(call).started
        assert unload(admin, "name").left == 1
        load(admin, "name", "b")
        predictor.gate.set()
        ids = [token for response in call for token in response.chunk.token_ids]
        assert (started.fingerprint, ids) == expected
        other = answer(target, "name")
        assert other[0] != expected[0]
        received = {"fingerprint": expected[0], "token_ids": ids[:3]}
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request(lora="name", sampling=SAMPLING, continue_from=received))
        assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        target.assert_all_free()


def test_an_unloaded_adapters_memory_is_reused(pair: tuple[RunningTarget, AdminServiceStub]) -> None:
    target, admin = pair
    numbers = set()
    for _ in range(4):
        load(admin, "name", "a")
        numbers.add(target.engine.adapters["name"].number)
        answer(target, "name")
        assert unload(admin, "name").left == 0
        target.on_engine_thread(lambda: None)  # after the command that frees it
    assert numbers == {0}


@pytest.fixture(scope="module")
def based(model: Path, folders: Path) -> Iterator[tuple[RunningTarget, AdminServiceStub]]:
    """A server whose model has a name."""
    with administered_target(model, lora_dir=folders, name="base") as (target, admin):
        yield target, admin
        target.assert_all_free()


@pytest.mark.parametrize(
    ("name", "folder", "problem"),
    [
        ("good", "missing", {"folder": "no such file"}),
        ("good", "other", {"folder": "adapter_config.json: no such file"}),
        ("good", "../..", {"folder": "is not below the folder"}),
        ("good", "/etc", {"folder": "is not below the folder"}),
        ("good", "a\0b", {"folder": "null"}),
        ("", "a", {"name": "is ''; allowed: 1 to 64 letters"}),
        ("a/b", "a", {"name": "is 'a/b'; allowed: 1 to 64 letters"}),
        ("base", "a", {"name": "'base' is the name of a model"}),
        ("x" * 65, "a", {"name": "allowed: 1 to 64 letters"}),
    ],
)
def test_an_adapter_that_cannot_be_loaded_changes_nothing(
    based: tuple[RunningTarget, AdminServiceStub], name: str, folder: str, problem: dict[str, str]
) -> None:
    target, admin = based
    with pytest.raises(grpc.RpcError) as failure:
        load(admin, name, folder)
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    ((field, said),) = problem.items()
    assert said in violations(failure.value)[field]
    assert load(admin, "good", "a") == ["good"]
    assert answer(target, "good")
    unload(admin, "good")


def test_without_a_folder_to_load_from_none_is_loaded(model: Path) -> None:
    with administered_target(model) as (_, admin):
        with pytest.raises(grpc.RpcError) as failure:
            load(admin, "name", "a")
        assert "--lora-dir" in violations(failure.value)["folder"]
        with pytest.raises(grpc.RpcError) as failure:
            unload(admin, "name")
        assert violations(failure.value) == {"name": "'name' is not loaded; allowed: none, there are none"}


def test_many_come_and_go_beside_answers_that_do_not_change(pair: tuple[RunningTarget, AdminServiceStub]) -> None:
    target, admin = pair
    load(admin, "kept", "b")
    expected = answer(target, "kept")
    calls = [target.stub.StreamGenerate(stream_request(lora="kept", sampling=SAMPLING)) for _ in range(4)]
    for _ in range(8):
        load(admin, "name", "a")
        unload(admin, "name")
    for call in calls:
        responses = [*call]
        assert [token for each in responses for token in each.chunk.token_ids] == expected[1]
    wait_until(lambda: not target.on_engine_thread(lambda: target.engine.scheduler.sequences))
