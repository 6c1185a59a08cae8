"""Models that come and go: a request for one that is not loaded waits for it, and gets the bytes it always gives."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from outrider.v1 import generation_pb2
from services.engine.config import ConfigError
from services.target.models.residency_config import ResidencyConfig
from tests.harness.servers.server import target_server, wait_until
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.requests import PROMPT, continued, stream
from tests.rpc.harness.residencies import (
    LOADING,
    ON_DEMAND,
    READY,
    UNLOADED,
    ask,
    budget_for_one,
    held_load,
    same,
    serving,
    states,
)


def test_models_that_do_not_fit_together_take_turns(model: Path, other: Path) -> None:
    with target_server(model, name="one") as alone:
        expected = stream(alone, ask("one"))
    with serving(model, other, ResidencyConfig(memory_budget=budget_for_one(model, other))) as target:
        assert states(target) == {"one": READY, "other": UNLOADED}
        first = stream(target, ask("one"))
        others = stream(target, ask("other"))
        assert states(target) == {"one": UNLOADED, "other": READY}
        again = stream(target, ask("one"))
        rest = stream(target, continued(ask("other"), others, 9))
        assert same(first, expected)
        assert same(again, expected)
        assert rest.token_ids == others.token_ids[9:]
        assert rest.started.fingerprint == others.started.fingerprint
        loads = [(each.loads.num_loads, each.loads.num_unloads) for each in target.server.models.all]
        assert loads == [(2, 2), (2, 1)]
        assert target.health() == "SERVING"


def test_facts_about_an_unloaded_model_stay_known(model: Path, other: Path) -> None:
    with serving(model, other, ResidencyConfig(memory_budget=budget_for_one(model, other))) as target:
        (one, never) = target.stub.ListModels(generation_pb2.ListModelsRequest()).models
        assert (one.loaded_share, never.loaded_share, never.HasField("info")) == (1, 0, False)
        info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest(model="other"))
        (gone, came) = target.stub.ListModels(generation_pb2.ListModelsRequest()).models
        assert (gone.loaded_share, gone.info, came.info) == (0, one.info, info)


@pytest.fixture
def _nothing_is_collected() -> Iterator[None]:
    """What is left in circles stays: the collector comes late, and not at all to what a server was loaded with."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_nothing_is_collected")
def test_an_idle_model_is_unloaded_and_its_memory_freed(model: Path, other: Path) -> None:
    with serving(model, other, ResidencyConfig(unload_after=0.2), lookup=True) as target:
        expected = stream(target, ask("one"))
        for _ in range(2):
            held = target.stub.StreamGenerate(ask("one"))
            next(held)
            decoder = weakref.ref(target.engine.model.decoder)
            assert sum(len(event.chunk.token_ids) for event in held) == 24
            wait_until(lambda: states(target) == {"one": UNLOADED, "other": UNLOADED})
            wait_until(lambda decoder=decoder: decoder() is None)
        assert target.health() == "SERVING"
        assert same(stream(target, ask("one")), expected)


def test_only_the_first_model_loads_at_start_with_progress(model: Path, other: Path) -> None:
    with serving(model, other, ON_DEMAND) as target:
        assert states(target) == {"one": READY, "other": UNLOADED}
        progress = held_load(target)
        call = target.stub.StreamGenerate(ask("other"), timeout=60)
        assert progress.is_held.wait(60)
        listed = target.stub.ListModels(generation_pb2.ListModelsRequest()).models[1]
        assert listed.state == LOADING
        assert 0.5 <= listed.loaded_share < 1
        assert len(stream(target, ask("one")).token_ids) == 24  # while the other one is loaded
        progress.goes_on.set()
        assert sum(len(event.chunk.token_ids) for event in call) == 24
        assert states(target) == {"one": READY, "other": READY}


def test_a_session_keeps_its_model(model: Path, other: Path) -> None:
    config = ResidencyConfig(memory_budget=budget_for_one(model, other), unload_after=0.1, least_stay=0.0)
    with serving(model, other, config) as target:
        created = generation_pb2.CreateSessionRequest(name="kept", prompt={"text": PROMPT}, ttl_seconds=3600)
        target.stub.CreateSession(created)
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, ask("other"), timeout=1.5)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert len(stream(target, ask("one", session="kept")).token_ids) == 24
        target.stub.DeleteSession(generation_pb2.DeleteSessionRequest(name="kept"))
        assert len(stream(target, ask("other")).token_ids) == 24


def test_a_draft_is_linked_again_after_a_reload(model: Path, other: Path) -> None:
    draft = RunningDraft(model)
    request = ask("one", speculation={"mode": "SPECULATION_MODE_ALWAYS"}, stop={"max_tokens": 60, "ignore_eos": True})
    config = ResidencyConfig(memory_budget=budget_for_one(model, other))
    try:
        with serving(model, other, config, drafts=[draft.address]) as target:
            target.wait_for_draft()
            expected = stream(target, request)
            assert expected.finished.speculation.accepted > 0
            stream(target, ask("other"))
            draft.assert_all_free()
            stream(target, ask("one"))
            target.wait_for_draft()
            again = stream(target, request)
            assert same(again, expected)
            assert again.finished.speculation.accepted > 0
        draft.assert_all_free()
    finally:
        draft.close()


def test_a_model_that_never_fits_is_named_with_its_figures(model: Path, other: Path) -> None:
    config = ResidencyConfig(memory_budget=1000)
    problem = r"memory_budget is 1000 bytes; model 'one' takes \d+ of weights and \d+ of KV cache, together \d+"
    with serving(model, other, config, loads=False) as target, pytest.raises(ConfigError, match=problem):
        target.call(target.server.open())
