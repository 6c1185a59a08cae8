"""An engine in a process of its own gives the answers that it gives in the service's own process."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.engine_process.conftest import Split
from tests.rpc.harness.field_examples import HELD, HELD_IDS, LORA, X
from tests.rpc.harness.requests import continued, stream, stream_request, violations
from tests.rpc.requests.test_every_field import GOOD, STOP, request_with

SCORED = {"prompt": {"text": "def main"}, "choices": [{"text": "(argv):"}, {"text": " else"}]}
EMBEDDED = {"inputs": [{"text": "import os"}, {"text": "return a longer text"}], "pooling": "POOLING_MEAN"}
ALWAYS = {"mode": "SPECULATION_MODE_ALWAYS", "num_predictions": 4}


@pytest.fixture(scope="module")
def whole(marked: tuple[Path, Path]) -> Iterator[RunningTarget]:
    """The same target in one process."""
    folder, adapter = marked
    with target_server(folder, lookup=True, parsers={"reasoning_parser": "think"}, loras={LORA: adapter}) as target:
        yield target


def told(target: RunningTarget, request: generation_pb2.StreamGenerateRequest) -> list[tuple[Any, ...]]:
    """All of each sample's answer that does not depend on names and times."""
    answers: dict[int, list[generation_pb2.StreamGenerateResponse]] = defaultdict(list)
    for event in target.stub.StreamGenerate(request, timeout=60):
        answers[event.sample].append(event)
    return [_told(answers[sample]) for sample in sorted(answers)]


def _told(events: list[generation_pb2.StreamGenerateResponse]) -> tuple[Any, ...]:
    finished = events[-1].finished
    records = [record for event in events for record in (*event.prefill.records, *event.chunk.records)]
    for record in records:
        record.ClearField("predicted")  # which depends on what predictions cost
        record.ClearField("prediction_source")
    return (
        "".join(event.chunk.text for event in events) + finished.text,
        [token_id for event in events for token_id in event.chunk.token_ids],
        finished.reason,
        [record.SerializeToString(deterministic=True) for record in records],
        [suppressed for event in events for suppressed in event.chunk.suppressed],
        (finished.usage.prompt_tokens, finished.usage.completion_tokens),
        events[0].started.grammar,
    )


def test_every_field_has_the_same_effect(whole: RunningTarget, split: Split) -> None:
    held = generation_pb2.CreateSessionRequest(name=HELD, prompt={"token_ids": {"ids": HELD_IDS}})
    for target in (whole, split.target):
        target.stub.CreateSession(held, timeout=60)
    plain = stream(whole, stream_request(output={"prompt_token_ids": True}, stop=STOP))
    differing = []
    for path, good in GOOD.items():
        request = request_with(good.fields(plain) if callable(good.fields) else good.fields)
        if told(split.target, request) != told(whole, request):
            differing.append(path)
    for target in (whole, split.target):
        target.stub.DeleteSession(generation_pb2.DeleteSessionRequest(name=HELD), timeout=60)
    assert not differing
    assert len(GOOD) > 100


def test_predictions_are_verified_there_and_change_no_byte(whole: RunningTarget, split: Split) -> None:
    prompt = [*range(30, 40)] * 4
    often = {"seed": 5, "logit_bias": [{"token_id": X, "bias": 20.0}]}  # lookup predicts more of it, rightly or not
    request = stream_request(prompt, sampling=often, stop={"max_tokens": 64, "ignore_eos": True}, speculation=ALWAYS)
    answer = stream(split.target, request)
    other = stream(whole, request)
    assert (answer.token_ids, answer.text) == (other.token_ids, other.text)
    assert answer.finished.speculation.passes == other.finished.speculation.passes
    assert 0 < answer.finished.speculation.accepted < answer.finished.speculation.predicted
    plain = stream_request(prompt, sampling=often, stop={"max_tokens": 64, "ignore_eos": True})
    assert answer.token_ids == stream(split.target, plain).token_ids


def test_scores_and_embeddings_are_the_same(whole: RunningTarget, split: Split) -> None:
    score, embed = generation_pb2.ScoreRequest(**SCORED), generation_pb2.EmbedRequest(**EMBEDDED)
    one, other = (target.stub.Score(score, timeout=60) for target in (whole, split.target))
    assert [*one.scores] == [*other.scores]
    first, second = (target.stub.Embed(embed, timeout=60) for target in (whole, split.target))
    assert [*first.embeddings] == [*second.embeddings]
    assert len(first.embeddings[0].values) > 0


def test_a_stream_goes_on_in_the_other_kind_of_service(whole: RunningTarget, split: Split) -> None:
    request = stream_request(output={"prompt_token_ids": True})
    answer = stream(whole, request)
    for count in (0, 1, 7, 24):
        rest = stream(split.target, continued(request, answer, count))
        assert answer.token_ids[count:] == rest.token_ids


def test_received_tokens_of_another_answer_are_refused_by_field(split: Split) -> None:
    forbidden = {"choice": {"texts": ["yes", "no"]}}
    request = stream_request(grammar=forbidden, output={"prompt_token_ids": True})
    wrong = continued(request, stream(split.target, request), 1)
    wrong.continue_from.token_ids[:] = [91] * 3
    with pytest.raises(grpc.RpcError) as failure:
        stream(split.target, wrong)
    assert "continue_from.token_ids" in violations(failure.value)


def test_a_slow_reader_pauses_its_stream_and_no_other(marked: tuple[Path, Path], whole: RunningTarget) -> None:
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    request = stream_request(stop={"max_tokens": 500, "ignore_eos": True}, output={"top_candidates": 20})
    with (
        target_server(marked[0], stream_capacity=8, own_process=True) as target,
        grpc.insecure_channel(target.address, narrow) as channel,
    ):
        engine = target.model.engine
        assert engine is not None
        call = type(target.stub)(channel).StreamGenerate(request)
        next(call)
        seen = [-1]

        def is_paused() -> bool:
            """It has generated nothing while another answer was made."""
            assert len(stream(target, stream_request()).token_ids) == 24
            seen.append(next(iter(engine.sequences().values())).num_generated)
            return seen[-1] == seen[-2]

        wait_until(is_paused)
        assert 0 < seen[-1] < 500
        ids = [token_id for event in call for token_id in event.chunk.token_ids]
        assert ids == stream(whole, request).token_ids
