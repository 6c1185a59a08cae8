"""Scores over gRPC: the bits that a prompt's own records have, and the same limits as generations."""

import math
from typing import Any

import grpc
import pytest

import outrider
from outrider.v1 import generation_pb2
from tests.harness.models.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.commands import outrider_run
from tests.rpc.harness.requests import PROMPT, stream, stream_request, violations

CHOICES = ("    return argv\n", "x", "    sys.exit(0)\n")
BAD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "an adapter that there is not": ({"lora": "other"}, {"lora": "'other' is not loaded; allowed: none"}),
    "no prompt": ({"prompt": None}, {"prompt": "is not set; allowed: text, token_ids or chat"}),
    "a prompt to heal": (
        {"prompt": {"text": "a", "heal": True}},
        {"prompt.heal": "is true; allowed: false, or not set"},
    ),
    "no choices": ({"choices": []}, {"choices": "has 0 entries; allowed: 1 to 16"}),
    "too many": ({"choices": [{"text": "a"}] * 17}, {"choices": "has 17 entries; allowed: 1 to 16"}),
    "no form": ({"choices": [{"text": "a"}, {}]}, {"choices[1]": "is not set; allowed: text or token_ids"}),
    "no text": ({"choices": [{"text": ""}]}, {"choices[0].text": "is empty; allowed: at least one character"}),
    "no ids": (
        {"choices": [{"token_ids": {}}]},
        {"choices[0].token_ids.ids": "is empty; allowed: at least one token"},
    ),
    "no token": (
        {"choices": [{"token_ids": {"ids": [0, VOCAB_SIZE]}}]},
        {"choices[0].token_ids.ids[1]": f"is {VOCAB_SIZE}; allowed: 0 to {VOCAB_SIZE - 1}"},
    ),
    "beyond the context": (
        {"prompt": {"token_ids": {"ids": [5] * (CONTEXT_LENGTH - 12)}}, "choices": [{"token_ids": {"ids": [5] * 13}}]},
        {
            "choices[0].token_ids.ids": "is 13 tokens long; "
            f"allowed: at most 12, the room that the context has after the prompt's {CONTEXT_LENGTH - 12}"
        },
    ),
    "a cache's name": (
        {"cache": {"salt": "x" * 1000}},
        {"cache.salt": "has 1000 bytes; allowed: at most 128 bytes"},
    ),
    "a name": ({"request_id": ""}, {"request_id": "has 0 bytes; allowed: 1 to 128 bytes of printable characters"}),
    "a priority": ({"priority": 11}, {"priority": "is 11; allowed: at least -10, at most 10"}),
    "a model": ({"model": "none"}, {"model": "'none' is not served here"}),
}


def score_request(**fields: Any) -> generation_pb2.ScoreRequest:
    defaults = {"prompt": {"text": PROMPT}, "choices": [{"text": choice} for choice in CHOICES]}
    return generation_pb2.ScoreRequest(**{**defaults, **fields})


def ids_of(target: RunningTarget, text: str, **fields: Any) -> list[int]:
    return [*target.stub.Tokenize(generation_pb2.TokenizeRequest(text=text, **fields)).token_ids]


def test_scores_are_the_records_of_a_prompt_that_ends_so(target: RunningTarget) -> None:
    scores = target.stub.Score(score_request(request_id="one"), timeout=60)
    prompt = ids_of(target, PROMPT)
    assert (scores.request_id, scores.prompt_tokens) == ("one", len(prompt))
    assert len(scores.scores) == len(CHOICES)
    for score, text in zip(scores.scores, CHOICES, strict=True):
        choice = ids_of(target, text, add_special_tokens=False)
        told = stream(target, stream_request([*prompt, *choice], output={"prompt_logprobs": True, "rank": True}))
        records = [record for prefill in told.prefills for record in prefill.records][len(prompt) :]
        assert list(score.token_ids) == choice == [record.id for record in records]
        assert list(score.token_logprobs) == [record.raw_logprob for record in records]
        assert list(score.token_ranks) == [record.rank for record in records]
        assert score.logprob == math.fsum(record.raw_logprob for record in records)
        assert told.started.fingerprint == scores.fingerprint


def test_a_choices_score_does_not_depend_on_others_or_the_cache(target: RunningTarget) -> None:
    together = target.stub.Score(score_request(), timeout=60)
    for cache in ({"prefix": False}, {"salt": "a new one"}, {"salt": "a new one"}):
        again = target.stub.Score(score_request(cache=cache), timeout=60)
        assert list(again.scores) == list(together.scores)
    long = score_request(prompt={"text": 9 * PROMPT}, cache={"salt": "a newer one"})
    cold, warm = [target.stub.Score(long, timeout=60) for _ in range(2)]
    assert cold.cached_tokens == 0 < warm.cached_tokens < warm.prompt_tokens
    assert list(warm.scores) == list(cold.scores)
    for index, text in enumerate(CHOICES):
        ids = {"token_ids": {"ids": ids_of(target, text, add_special_tokens=False)}}
        assert list(target.stub.Score(score_request(choices=[ids])).scores) == [together.scores[index]]


def test_a_greedy_answer_is_scored_with_rank_one(target: RunningTarget) -> None:
    request = stream_request(sampling={"seed": 5, "temperature": 0}, output={"logprobs": True})
    answer = stream(target, request)
    (score,) = target.stub.Score(score_request(choices=[{"token_ids": {"ids": answer.token_ids}}])).scores
    assert set(score.token_ranks) == {1}
    assert list(score.token_logprobs) == [record.raw_logprob for record in answer.records]


def test_prompt_and_choice_may_fill_the_context(target: RunningTarget) -> None:
    choice = {"token_ids": {"ids": [7] * (CONTEXT_LENGTH - 1)}}
    request = score_request(prompt={"token_ids": {"ids": [5]}}, choices=[choice])
    (score,) = target.stub.Score(request, timeout=60).scores
    assert len(score.token_logprobs) == CONTEXT_LENGTH - 1


@pytest.mark.parametrize("name", BAD)
def test_bad_fields_are_named(target: RunningTarget, name: str) -> None:
    fields, expected = BAD[name]
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Score(score_request(**fields), timeout=60)
    found = violations(failure.value)
    assert found.keys() == expected.keys()
    assert all(description in found[field] for field, description in expected.items())


def test_every_field_has_a_bad_value() -> None:
    told = {field.split(".")[0].split("[")[0] for _, expected in BAD.values() for field in expected}
    assert told == {field.name for field in generation_pb2.ScoreRequest.DESCRIPTOR.fields}


def test_cancelling_and_the_deadline_free_all(model: Any) -> None:
    with target_server(model, prefill_chunk=1) as slow:
        request = score_request(prompt={"token_ids": {"ids": [5, 6] * 200}})
        call = slow.stub.Score.future(request, timeout=60)
        wait_until(lambda: slow.on_engine_thread(lambda: bool(slow.engine.scheduler.running)))
        call.cancel()
        slow.assert_all_free()
        with pytest.raises(grpc.RpcError) as failure:
            slow.stub.Score(request, timeout=0.05)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        slow.assert_all_free()


def test_choices_count_as_sequences(model: Any) -> None:
    with target_server(model, max_sequences=2, max_rows=64) as target:
        with pytest.raises(grpc.RpcError) as refusal:
            target.stub.Score(score_request(), timeout=60)
        assert violations(refusal.value) == {"choices": "has 3 entries; allowed: 1 to 2"}
        assert len(target.stub.Score(score_request(choices=[{"text": "a"}, {"text": "b"}])).scores) == 2
        target.assert_all_free()


async def test_the_clients_give_all_of_it(target: RunningTarget) -> None:
    expected = target.stub.Score(score_request(request_id="it"), timeout=60)
    with outrider.Client(target.address) as client:
        scores = client.score(PROMPT, CHOICES, request_id="it")
        with pytest.raises(outrider.InvalidArgument, match="choices"):
            client.score(PROMPT, [])
    async with outrider.AsyncClient(target.address) as other:
        assert (await other.score(PROMPT, CHOICES, request_id="it")).scores == scores.scores
    assert [(one.logprob, one.token_logprobs) for one in scores.scores] == [
        (one.logprob, tuple(one.token_logprobs)) for one in expected.scores
    ]
    likeliest = max(expected.scores, key=lambda one: one.logprob)
    assert scores.scores[scores.best].logprob == likeliest.logprob


def test_the_command_lists_them(target: RunningTarget) -> None:
    done = outrider_run("score", PROMPT, *CHOICES, "--address", target.address)
    assert done.returncode == 0, done.stderr
    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["logprob", "per", "token", "tokens", "greedy", "text"]
    scores = target.stub.Score(score_request(), timeout=60).scores
    assert [row.split()[0] for row in rows] == [f"{score.logprob:.4f}" for score in scores]
    refused = outrider_run("score", "", "a", "--address", target.address)
    assert (refused.returncode, refused.stderr) == (1, "prompt.text is empty; allowed: at least one character\n")
