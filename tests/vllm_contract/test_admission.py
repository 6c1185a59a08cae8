"""The contract's calls count as our own: beyond the limits they are refused, with the time to retry."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from services.service.server_config import ServerConfig
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import stream_request
from tests.vllm_contract.asking import ask, contract_request, stub_of

FULL = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=1)


@pytest.fixture
def gate() -> GatePredictor:
    return GatePredictor()


@pytest.fixture
def target(model: Path, gate: GatePredictor) -> Iterator[RunningTarget]:
    """It takes in two requests, and runs one of them."""
    with target_server(model, predictor=gate, server=FULL, max_sequences=1, vllm_contract=True) as running:
        yield running
        gate.gate.set()
        running.assert_all_free()


def test_a_full_server_refuses_by_either_api(target: RunningTarget, gate: GatePredictor) -> None:
    gate.gate.clear()
    first = target.stub.StreamGenerate(stream_request(stop={"max_tokens": 400, "ignore_eos": True}))
    next(first)
    second = stub_of(target).Generate(contract_request(), timeout=60)
    wait_until(lambda: target.model.admissions.streams.total == 2)
    for call in (
        stub_of(target).Generate(contract_request(), timeout=60),
        target.stub.StreamGenerate(stream_request(), timeout=60),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            list(call)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "grpc-retry-pushback-ms" in {key for key, _ in refused.value.trailing_metadata()}
    gate.gate.set()
    assert len(list(first)) > 0 < len(list(second))
    assert ask(target, contract_request()).end.finish_reason == "length"
    assert sum(target.model.statistics.ended.values()) == 3


def test_more_samples_than_a_server_runs_are_named(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError, match=r"sampling_params\.n is 2; allowed: at least 1, at most 1"):
        ask(target, contract_request(n=2))
