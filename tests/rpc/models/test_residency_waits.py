"""Waiting for a model to be loaded: crowds, callers that leave, loads that fail, and servers that end."""

from concurrent.futures import CancelledError
from pathlib import Path

import grpc
import pytest

from outrider.v1 import generation_pb2
from services.service.server_config import ServerConfig
from services.target.models import residency
from services.target.models.residency_config import ResidencyConfig
from tests.harness.servers.server import engine_config, wait_until
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import stream
from tests.rpc.harness.residencies import (
    LOADING,
    ON_DEMAND,
    READY,
    UNLOADED,
    ask,
    budget_for_one,
    held_load,
    second,
    serving,
    states,
)


def test_a_crowd_waits_for_a_load_within_the_queue_limits(model: Path, other: Path) -> None:
    server = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_queue=8, max_streams_per_caller=1000)
    with serving(model, other, ON_DEMAND, server=server) as target:
        expected = generation_pb2.GenerateRequest.FromString(ask("other", stop={"max_tokens": 2}).SerializeToString())
        progress = held_load(target)
        calls = [target.stub.Generate.future(expected, timeout=100) for _ in range(200)]
        assert progress.is_held.wait(60)
        places = 64 + 8
        wait_until(lambda: sum(call.done() for call in calls) == 200 - places)
        refused = {call.code() for call in calls if call.done()}
        assert refused == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert target.health() == "SERVING"
        progress.goes_on.set()
        told = [call.result().text for call in calls if call.code() is grpc.StatusCode.OK]
        assert len(told) == places
        assert len(set(told)) == 1
        assert second(target).loads.num_loads == 1
        wait_until(lambda: second(target).num_at_work == 0)


def test_a_call_that_ends_during_a_load_leaves_nothing(model: Path, other: Path) -> None:
    with serving(model, other, ON_DEMAND) as target:
        progress = held_load(target)
        cancelled, late = (target.stub.StreamGenerate(ask("other"), timeout=seconds) for seconds in (60, 0.5))
        stays = target.stub.StreamGenerate(ask("other"), timeout=60)
        assert progress.is_held.wait(60)
        wait_until(lambda: second(target).num_at_work == 3 or late.done())
        cancelled.cancel()
        wait_until(late.done)
        assert late.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: second(target).num_at_work == 1)
        progress.goes_on.set()
        assert sum(len(event.chunk.token_ids) for event in stays) == 24
        wait_until(lambda: second(target).num_at_work == 0)


def test_no_model_is_unloaded_for_cancelled_calls(model: Path, other: Path) -> None:
    predictor = GatePredictor()
    config = ResidencyConfig(memory_budget=budget_for_one(model, other))
    with serving(model, other, config, predictor=predictor) as target:
        predictor.gate.clear()
        busy = target.stub.StreamGenerate(ask("one"))
        next(busy)
        waiting = target.stub.StreamGenerate(ask("other"))
        wait_until(lambda: states(target)["other"] == LOADING)
        waiting.cancel()
        wait_until(lambda: states(target)["other"] == UNLOADED)
        predictor.gate.set()
        assert sum(len(event.chunk.token_ids) for event in busy) == 24
        assert states(target) == {"one": READY, "other": UNLOADED}


def test_a_busy_model_makes_way_after_a_while_and_comes_back(model: Path, other: Path) -> None:
    predictor = GatePredictor()
    config = ResidencyConfig(memory_budget=budget_for_one(model, other), least_stay=0.0)
    with serving(model, other, config, predictor=predictor) as target:
        expected = stream(target, ask("one"))
        predictor.gate.clear()
        busy = target.stub.StreamGenerate(ask("one"))
        next(busy)
        waiting = target.stub.StreamGenerate(ask("other"))
        wait_until(lambda: target.server.models.first in target.server.models.residency._leaving)
        behind = target.stub.StreamGenerate(ask("one"))
        predictor.gate.set()
        assert sum(len(event.chunk.token_ids) for event in busy) == 24
        assert sum(len(event.chunk.token_ids) for event in waiting) == 24
        ids = [token_id for event in behind for token_id in event.chunk.token_ids]
        assert ids == expected.token_ids
        assert target.server.models.first.loads.num_loads == 2


def test_a_failed_load_is_sent_to_all_waiting_calls(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(model, tmp_path, ON_DEMAND) as target:
        calls = [target.stub.StreamGenerate(ask("other"), timeout=60) for _ in range(4)]
        for call in calls:
            with pytest.raises(grpc.RpcError) as failure:
                list(call)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert failure.value.details() == "'other' could not be loaded; the log of its server says why"
        assert states(target) == {"one": READY, "other": UNLOADED}
        assert len(stream(target, ask("one")).token_ids) == 24
        second(target).config = engine_config(model)
        monkeypatch.setattr(residency, "_COOL_DOWN", 0.0)
        assert len(stream(target, ask("other")).token_ids) == 24


def test_a_server_closed_during_a_load_ends_the_waiting_calls(model: Path, other: Path) -> None:
    with serving(model, other, ON_DEMAND) as target:
        progress = held_load(target)
        call = target.stub.StreamGenerate(ask("other"), timeout=60)
        assert progress.is_held.wait(60)
        target.call(target.server.close())
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(CancelledError):
            progress.advance(1.0)
        assert second(target).engine is None
