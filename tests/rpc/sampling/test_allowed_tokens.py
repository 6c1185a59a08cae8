"""A request that lists the allowed tokens: the answer is as if all others' logits were minus infinity."""

import math
from typing import Any

import grpc
import pytest

from outrider import Client, InvalidArgument
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.requests import continued, stream, stream_request, violations

END = 1
ALLOWED = [*range(65, 91), *range(100, 500, 7)]
SAMPLING: dict[str, Any] = {"seed": 3, "temperature": 0.9, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.3}
OUTPUT = {"logprobs": True, "top_candidates": 5, "rank": True, "entropy": True, "prompt_token_ids": True}


def test_an_answer_is_the_one_with_all_others_forbidden_by_bias(target: RunningTarget) -> None:
    """To the bit: records too, whose raw figures stay those of the model."""
    others = [{"token_id": token_id, "bias": -math.inf} for token_id in range(VOCAB_SIZE) if token_id not in ALLOWED]
    allowed = stream(target, stream_request(sampling={**SAMPLING, "allowed_token_ids": ALLOWED}, output=OUTPUT))
    biased = stream(target, stream_request(sampling={**SAMPLING, "logit_bias": others}, output=OUTPUT))
    assert {*allowed.token_ids} <= {*ALLOWED}
    assert (allowed.token_ids, allowed.text, allowed.records) == (biased.token_ids, biased.text, biased.records)
    assert {candidate.id for record in allowed.records for candidate in record.candidates} <= {*ALLOWED}
    assert any(record.rank > 1 for record in allowed.records if record.id == record.candidates[0].id)


def test_all_but_a_few_tokens_can_be_allowed(target: RunningTarget) -> None:
    plain = stream(target, stream_request())
    allowed = [token_id for token_id in range(VOCAB_SIZE) if token_id not in plain.token_ids[:5]]
    answer = stream(target, stream_request(sampling={"seed": 5, "allowed_token_ids": [*allowed, *allowed[:5]]}))
    assert len(answer.token_ids) == 24
    assert not {*answer.token_ids} & {*plain.token_ids[:5]}


def test_the_whole_vocabulary_changes_nothing(target: RunningTarget) -> None:
    plain = stream(target, stream_request(output=OUTPUT))
    answer = stream(target, stream_request(sampling={"seed": 5, "allowed_token_ids": range(VOCAB_SIZE)}, output=OUTPUT))
    assert (answer.token_ids, answer.records) == (plain.token_ids, plain.records)


@pytest.mark.parametrize("min_tokens", [0, 5])
def test_a_stop_token_is_drawn_only_if_allowed(target: RunningTarget, min_tokens: int) -> None:
    stop = {"max_tokens": 24, "min_tokens": min_tokens}
    ends = {"seed": 5, "logit_bias": [{"token_id": END, "bias": 100.0}]}
    with_end = stream(target, stream_request(sampling={**ends, "allowed_token_ids": [*ALLOWED, END]}, stop=stop))
    assert (len(with_end.token_ids), with_end.reason) == (min_tokens + 1, "FINISH_REASON_STOP_TOKEN")
    without = stream(target, stream_request(sampling={**ends, "allowed_token_ids": ALLOWED}, stop=stop))
    assert (len(without.token_ids), without.reason) == (24, "FINISH_REASON_MAX_TOKENS")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"sampling": {"allowed_token_ids": [END]}, "stop": {"min_tokens": 1}}, "NO_CANDIDATES"),
        (
            {"sampling": {"allowed_token_ids": [70], "logit_bias": [{"token_id": 70, "bias": -math.inf}]}},
            "NO_CANDIDATES",
        ),
        ({"sampling": {"allowed_token_ids": [END]}, "grammar": {"regex": "[a-z]+"}}, "GRAMMAR_INCOMPLETE"),
    ],
)
def test_where_no_allowed_token_is_left_the_generation_ends(
    target: RunningTarget, fields: dict[str, Any], reason: str
) -> None:
    answer = stream(target, stream_request(**fields))
    assert (answer.token_ids, answer.reason) == ([], f"FINISH_REASON_{reason}")


def test_within_a_grammar_only_allowed_tokens_are_drawn(target: RunningTarget) -> None:
    with Client(target.address) as client:
        (x,), (y,) = (client.tokenize(letter, add_special_tokens=False).token_ids for letter in "xy")
        both = client.generate("a", seed=1, regex="[a-z]{20}", allowed_token_ids=[x, y, END])
        assert {*both.text} == {"x", "y"}
        assert len(both.text) == 20
        one = client.generate("a", seed=1, regex="[a-z]{20}", allowed_token_ids=[x, END])
        assert one.text == "x" * 20


def test_a_healed_token_need_not_be_allowed(target: RunningTarget) -> None:
    prompt = {"text": "import os ", "heal": True}
    free = stream(target, stream_request(prompt))
    answer = stream(target, stream_request(prompt, sampling={"seed": 5, "allowed_token_ids": [91]}))
    assert answer.token_ids == [91] * 24
    assert answer.text[:-24] == free.text[: len(answer.text) - 24]


def test_a_continuation_draws_allowed_tokens_only(target: RunningTarget) -> None:
    request = stream_request(sampling={**SAMPLING, "allowed_token_ids": ALLOWED}, output=OUTPUT)
    whole = stream(target, request)
    for count in (0, 1, 11, 24):
        rest = stream(target, continued(request, whole, count))
        assert (rest.token_ids, rest.records) == (whole.token_ids[count:], whole.records[count:])


def test_received_tokens_that_are_not_allowed_are_refused(target: RunningTarget) -> None:
    whole = stream(target, stream_request(output=OUTPUT))
    request = stream_request(sampling={"seed": 5, "allowed_token_ids": sorted({*whole.token_ids[:3]})})
    first_other = next(index for index, token in enumerate(whole.token_ids) if token not in whole.token_ids[:3])
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, continued(request, whole, 24))
    (problem,) = violations(failure.value).values()
    assert f"sampling.allowed_token_ids forbids the token at {first_other}" in problem


def test_the_client_does_not_take_none_for_all(target: RunningTarget) -> None:
    with (
        Client(target.address) as client,
        pytest.raises(InvalidArgument, match=r"sampling\.allowed_token_ids: names no token"),
    ):
        client.generate("a", allowed_token_ids=[])
