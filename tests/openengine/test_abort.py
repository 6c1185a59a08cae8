"""Abort ends its caller's requests wherever they are, and frees what they hold."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from services.target.engines.model_setup import ModelSetup
from services.target.models.residency_config import ResidencyConfig
from services.target.openengine import running_requests
from services.target.openengine.v1 import openengine_pb2
from tests.harness.servers.server import RunningTarget, engine_config, target_server, wait_until
from tests.openengine.asking import ask, contract_request, control, inference, taken
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import violations

MUCH = {"max_tokens": 400, "ignore_eos": True}
ABORTED, ENDED = openengine_pb2.ABORT_STATUS_ABORTED, openengine_pb2.ABORT_STATUS_ALREADY_FINISHED


@pytest.fixture(scope="module")
def gate() -> GatePredictor:
    return GatePredictor(num_tokens=4)


@pytest.fixture(scope="module")
def target(model: Path, gate: GatePredictor) -> Iterator[RunningTarget]:
    """It runs two sequences at once, and while the gate is shut none beyond a few tokens."""
    with target_server(model, predictor=gate, max_sequences=2) as running:
        yield running
        gate.gate.set()
        running.assert_all_free()


def abort(target: RunningTarget, metadata: Any = None, **fields: Any) -> int:
    request = openengine_pb2.AbortRequest(**fields)
    return control(target).Abort(request, timeout=20, metadata=metadata).status


def test_an_abort_amid_a_stream_frees_its_blocks(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    try:
        call = inference(target).Generate(contract_request(request_id="a", stopping=MUCH), timeout=60)
        first = next(call).token
        assert abort(target, request_id="a") == ABORTED
        asked = taken(call)
    finally:
        gate.gate.set()
    assert (asked.answer.reason, asked.answer.end.message) == ("CANCELLED", "aborted")
    assert asked.usage.completion_tokens == len(first.tokens) + len(asked.answer.tokens) < 400
    assert abort(target, request_id="a") == ENDED
    target.assert_all_free()


def test_an_abort_ends_every_answer_that_waits(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    try:
        both = {"seed": 5, "num_sequences": 2}
        running = inference(target).Generate(contract_request(request_id="b", sampling=both), timeout=60)
        next(running)
        waiting = inference(target).Generate(contract_request(request_id="c", sampling=both), timeout=60)
        wait_until(lambda: target.model.statistics.num_live == 4)
        assert abort(target, request_id="c") == ABORTED
        asked = taken(waiting)
        assert [asked.answers[index].reason for index in (0, 1)] == ["CANCELLED"] * 2
        assert asked.usage.completion_tokens == 0
    finally:
        gate.gate.set()
    assert [answer.reason for answer in taken(running).answers.values()] == ["LENGTH", "LENGTH"]


def test_all_requests_are_aborted_at_once(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    try:
        calls = [inference(target).Generate(contract_request(request_id="d", stopping=MUCH), timeout=60)]
        next(calls[0])
        calls.append(inference(target).Generate(contract_request(stopping=MUCH), timeout=60))
        wait_until(lambda: target.model.statistics.num_live == 2)
        assert abort(target, all_requests={}) == ABORTED
        assert [taken(call).answer.reason for call in calls] == ["CANCELLED"] * 2
    finally:
        gate.gate.set()
    assert abort(target, all_requests={}) == ENDED


def test_a_name_that_runs_is_not_taken_twice(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    try:
        call = inference(target).Generate(contract_request(request_id="e"), timeout=60)
        next(call)
        with pytest.raises(grpc.RpcError, match="request_id 'e' is the name of a request that still runs") as failure:
            ask(target, contract_request(request_id="e"))
        assert failure.value.code() is grpc.StatusCode.ALREADY_EXISTS
    finally:
        gate.gate.set()
    assert taken(call).answer.reason == "LENGTH"
    assert ask(target, contract_request(request_id="e")).answer.reason == "LENGTH"


def test_what_there_is_not_is_not_found(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        abort(target, request_id="")
    assert violations(failure.value) == {"request_id": "is empty; allowed: the name of a request"}
    for fields in ({"request_id": "nobody's"}, {"kv_session": {"session_id": "s"}}):
        with pytest.raises(grpc.RpcError) as failure:
            abort(target, **fields)
        assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as failure:
        abort(target)
    assert violations(failure.value) == {"target": "is not set; allowed: request_id or all_requests"}
    monkeypatch.setattr(running_requests, "_MOST_ENDED", 1)
    for name in ("f", "g"):
        ask(target, contract_request(request_id=name))
    wait_until(lambda: abort(target, request_id="g") == ENDED)
    with pytest.raises(grpc.RpcError, match="'f' is not the name of a request of this caller"):
        abort(target, request_id="f")


def test_a_name_that_is_too_long_is_not_kept(target: RunningTarget) -> None:
    name = "x" * 129
    with pytest.raises(grpc.RpcError) as failure:
        ask(target, contract_request(request_id=name))
    assert "has 129 bytes" in violations(failure.value)["request_id"]
    with pytest.raises(grpc.RpcError) as failure:
        abort(target, request_id=name)
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_request_that_waits_for_its_model_is_aborted(model: Path) -> None:
    second = ModelSetup(engine=engine_config(model), name="second")
    residency = ResidencyConfig(load_on_demand=True)
    with target_server(model, name="first", further=[second], residency=residency) as target:
        opened = threading.Event()
        opening = target.server.models.all[1].open

        async def open_late() -> None:
            await asyncio.to_thread(opened.wait)
            await opening()

        target.server.models.all[1].open = open_late  # type: ignore[method-assign]
        call = inference(target).Generate(contract_request(request_id="a", model="second"), timeout=60)
        wait_until(lambda: target.server.models.all[1].admissions.streams.total == 1)
        assert abort(target, request_id="a") == ABORTED
        with pytest.raises(grpc.RpcError, match="aborted before it was accepted") as failure:
            list(call)
        assert failure.value.code() is grpc.StatusCode.ABORTED
        opened.set()


def test_another_callers_requests_are_out_of_reach(model: Path, tmp_path: Path) -> None:
    gate = GatePredictor()
    made = [new_token(name, [Scope.GENERATE]) for name in ("one", "two")]
    (tmp_path / "tokens").write_text("".join(f"{line}\n" for _, line in made))
    one, other = ([("authorization", f"Bearer {token}")] for token, _ in made)
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    with target_server(model, predictor=gate, server=config) as target:
        gate.gate.clear()
        call = inference(target).Generate(contract_request(request_id="a"), timeout=60, metadata=one)
        next(call)
        with pytest.raises(grpc.RpcError) as failure:
            abort(target, metadata=other, request_id="a")
        assert failure.value.code() is grpc.StatusCode.NOT_FOUND
        assert abort(target, metadata=other, all_requests={}) == ENDED
        gate.gate.set()
        assert taken(call).answer.reason == "LENGTH"
