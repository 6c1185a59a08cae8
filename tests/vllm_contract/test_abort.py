"""Abort ends its caller's requests wherever they are, frees what they hold, and reaches no other caller's."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from smg_grpc_proto.generated import vllm_engine_pb2, vllm_engine_pb2_grpc

from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import violations
from tests.vllm_contract.asking import ask, contract_request, stub_of


@pytest.fixture(scope="module")
def gate() -> GatePredictor:
    return GatePredictor(num_tokens=4)


@pytest.fixture(scope="module")
def target(model: Path, gate: GatePredictor) -> Iterator[RunningTarget]:
    """It runs two sequences at once, and while the gate is shut none beyond a few tokens."""
    with target_server(model, predictor=gate, max_sequences=2, vllm_contract=True) as running:
        yield running
        gate.gate.set()
        running.assert_all_free()


def abort(target: RunningTarget, *names: str) -> None:
    stub_of(target).Abort(vllm_engine_pb2.AbortRequest(request_ids=names), timeout=20)


def ends(call: grpc.Call) -> list[vllm_engine_pb2.GenerateComplete]:
    return [response.complete for response in call if response.HasField("complete")]


def test_an_abort_amid_a_stream_frees_its_blocks(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    try:
        call = stub_of(target).Generate(contract_request(request_id="a", max_tokens=400), timeout=60)
        first = next(call).chunk
        abort(target, "nobody's", "a")
        (end,) = ends(call)
    finally:
        gate.gate.set()
    assert (end.finish_reason, end.prompt_tokens) == ("abort", 7)
    assert end.completion_tokens == len(end.output_ids) < 400
    assert end.output_ids[: len(first.token_ids)] == first.token_ids
    target.assert_all_free()


def test_an_abort_while_waiting_ends_every_sample(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    try:
        running = stub_of(target).Generate(contract_request(max_tokens=20, n=2), timeout=60)
        next(running)
        waiting = stub_of(target).Generate(contract_request(request_id="b", n=2), timeout=60)
        wait_until(lambda: target.model.statistics.num_live == 4)
        abort(target, "b")
        assert [(end.finish_reason, end.completion_tokens, end.index) for end in ends(waiting)] == [
            ("abort", 0, 0),
            ("abort", 0, 1),
        ]
    finally:
        gate.gate.set()
    assert [end.finish_reason for end in ends(running)] == ["length", "length"]
    target.assert_all_free()


def test_another_callers_request_of_the_same_name_is_kept(target: RunningTarget, gate: GatePredictor) -> None:
    with grpc.insecure_channel(target.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        other = vllm_engine_pb2_grpc.VllmEngineStub(channel)
        gate.gate.clear()
        try:
            call = other.Generate(contract_request(request_id="c", max_tokens=12), timeout=60)
            next(call)
            abort(target, "c")
        finally:
            gate.gate.set()
        assert [end.finish_reason for end in ends(call)] == ["length"]


def test_cancelling_the_call_frees_its_blocks(target: RunningTarget) -> None:
    call = stub_of(target).Generate(contract_request(max_tokens=400), timeout=60)
    next(call)
    call.cancel()
    target.assert_all_free()


def test_a_name_can_be_used_again(target: RunningTarget) -> None:
    for _ in range(2):
        assert ask(target, contract_request(request_id="d", max_tokens=2)).end.finish_reason == "length"
        abort(target, "d")


def test_too_many_names_are_refused(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        abort(target, *["x"] * 1025)
    assert violations(failure.value) == {"request_ids": "has 1025 entries; allowed: at most 1024"}
