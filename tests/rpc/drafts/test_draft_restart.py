"""A draft whose engine fails starts another one; its targets are disconnected, and link anew."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.draft import server
from services.draft.server import SERVICE
from services.engine.loaded_model import LoadedModel
from tests.harness.servers.server import target_server, wait_until
from tests.rpc.harness.draft_link import GREEDY, PROMPT, Link, RunningDraft, generate, hello_of
from tests.rpc.harness.held_pass import HeldPass, behind
from tests.rpc.harness.requests import stream, stream_request


def health(draft: RunningDraft) -> str:
    with grpc.insecure_channel(draft.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SERVICE))
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def break_engine(draft: RunningDraft) -> None:
    draft.engine._loop.post(lambda: 1 // 0)


@contextmanager
def restarting_draft(model: Path, head_shortlist: int | None = None) -> Iterator[RunningDraft]:
    running = RunningDraft(model, head_shortlist=head_shortlist)
    ended = running.begin(running.server.wait_failed())
    yield running
    assert not ended.done()  # whatever happened
    ended.cancel()
    running.close()


@pytest.fixture
def own_draft(model: Path):
    with restarting_draft(model) as running:
        yield running


def test_links_are_cut_and_a_new_one_is_served_as_before(
    own_draft: RunningDraft, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = own_draft.engine
    link = Link(own_draft, **hello_of(own_draft))
    link.next()
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    with caplog.at_level(logging.WARNING):
        break_engine(own_draft)
        code, reason = link.failure()
        wait_until(lambda: own_draft.engine is not first and health(own_draft) == "SERVING")
    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "the draft's engine has failed; another one is started")
    assert "ZeroDivisionError" in caplog.text
    assert "restarted with the loaded weights" in caplog.text
    link.close()
    with target_server(model) as target:
        expected = generate(target, PROMPT, 8, GREEDY)
    again = Link(own_draft, **hello_of(own_draft))
    again.next()
    again.begin(PROMPT, 8)
    assert again.predictions(8, position=len(PROMPT)) == expected
    again.close()
    own_draft.assert_all_free()


def test_a_stream_keeps_its_bytes_and_gets_its_predictions_back(own_draft: RunningDraft, model: Path) -> None:
    request = stream_request(
        stop={"max_tokens": 300, "ignore_eos": True}, speculation={"mode": "SPECULATION_MODE_ALWAYS"}
    )
    with target_server(model, drafts=[own_draft.address]) as target:
        target.wait_for_draft()
        whole = stream(target, request)
        predictor, halfway = target.model.drafts.pool.remotes[0], HeldPass(target, behind(20))
        arrivals = predictor.num_arrivals
        with ThreadPoolExecutor(1) as thread:
            streamed = thread.submit(stream, target, request)
            halfway.is_held.wait()
            break_engine(own_draft)
            wait_until(lambda: predictor.num_arrivals > arrivals)
            halfway.may_go_on.set()
            again = streamed.result()
        assert again.token_ids == whole.token_ids
        assert again.finished.speculation.draft_losses == 1
        target.assert_all_free()


def test_an_engine_that_cannot_start_again_is_tried_until_it_can(
    own_draft: RunningDraft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_LONGEST_PAUSE", 0.01)
    first, renewed, failures = own_draft.engine, LoadedModel.renewed, []

    def fail(self: LoadedModel, config: object) -> LoadedModel:
        if len(failures) < 3:
            failures.append(health(own_draft))
            raise RuntimeError("the device is gone")
        return renewed(self, config)

    monkeypatch.setattr(LoadedModel, "renewed", fail)
    break_engine(own_draft)
    wait_until(lambda: own_draft.engine is not first and health(own_draft) == "SERVING")
    assert failures == ["NOT_SERVING"] * 3


def test_a_draft_with_a_shortlist_starts_again_with_one(model: Path) -> None:
    with restarting_draft(model, head_shortlist=256) as draft:
        first = draft.engine
        break_engine(draft)
        wait_until(lambda: draft.engine is not first and health(draft) == "SERVING")
        link = Link(draft, **hello_of(draft))
        link.next()
        link.begin(PROMPT, 8)
        off_the_list = {*range(256, 512)} - {*PROMPT}
        assert off_the_list.isdisjoint(link.predictions(8, position=len(PROMPT)))
        link.close()
