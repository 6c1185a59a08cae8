"""Received tokens that a rule of the request forbids are no continuation of its answer, and are refused by its name."""

from dataclasses import replace
from typing import Any

import pytest

from services.engine.allowed_tokens import AllowedTokens
from services.engine.forced_tokens import ForcedIds
from services.engine.request import Request
from tests.e2e.harness.stepper import Stepper, request
from tests.harness.models.checkpoints import VOCAB_SIZE

PROMPT = (5, 6, 7, 5)
NEW_TOKENS = 6
RECEIVED = (20, 21, 22, 20, 23)
FORCED = ForcedIds(last=(300,)).in_answer(num_prompt=4, min_tokens=0, max_tokens=NEW_TOKENS, vocab_size=VOCAB_SIZE)

BROKEN: dict[str, tuple[dict[str, Any], tuple[int, ...], str]] = {
    "suppressed": ({"suppressed_ids": (9, 22)}, RECEIVED, "sampling.suppress_token_ids forbids the token at 2"),
    "suppressed first": ({"begin_suppressed_ids": (20,)}, RECEIVED, "begin_suppress_token_ids forbids the token at 0"),
    "a bad word": ({"bad_words": ((22, 20),)}, RECEIVED, "sampling.bad_words_ids forbids the token at 3"),
    "a bad word from the prompt on": ({"bad_words": ((7, 5, 20),)}, RECEIVED, "bad_words_ids forbids the token at 0"),
    "a token twice": ({"no_repeat_ngram_size": 1}, RECEIVED, "no_repeat_ngram_size forbids the token at 3"),
    "a pair twice": ({"no_repeat_ngram_size": 2}, (20, 21, 20, 21), "no_repeat_ngram_size forbids the token at 3"),
    "a pair of the prompt": ({"no_repeat_ngram_size": 2}, (6, 8), "no_repeat_ngram_size forbids the token at 0"),
    "a bias of minus infinity": ({"logit_bias": {23: float("-inf")}}, RECEIVED, "logit_bias forbids the token at 4"),
    "an early end": ({"token_ids": frozenset({21}), "min_tokens": 2}, RECEIVED, "min_tokens forbids the token at 1"),
    "not allowed": (
        {"allowed_tokens": AllowedTokens.of((20, 21), vocab_size=VOCAB_SIZE)}, RECEIVED,
        "sampling.allowed_token_ids forbids the token at 2",
    ),
    "another end than is forced": ({"forced": FORCED}, (*RECEIVED, 24), "the checkpoint forces another token at 5"),
}  # fmt: skip
KEPT: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "suppressed first, later": ({"begin_suppressed_ids": (21,)}, RECEIVED),
    "an unfinished bad word": ({"bad_words": ((22, 20, 24), (20, 22), (5, 20, 21, 23))}, RECEIVED),
    "longer runs": ({"no_repeat_ngram_size": 3}, (20, 21, 20, 21)),
    "runs beyond the text": ({"no_repeat_ngram_size": 2**31 - 1}, RECEIVED),
    "a bias": ({"logit_bias": {23: -100.0}}, RECEIVED),
    "an end in time": ({"token_ids": frozenset({23}), "min_tokens": 4}, RECEIVED),
    "what is forced": ({"forced": FORCED}, (*RECEIVED, 300)),
    "a forced end that is not allowed": (
        {"forced": FORCED, "allowed_tokens": AllowedTokens.of(range(20, 30), vocab_size=VOCAB_SIZE)}, (*RECEIVED, 24),
    ),
}  # fmt: skip


def continued(fields: dict[str, Any], received: tuple[int, ...]) -> Request:
    asked = request(PROMPT, **{"max_tokens": NEW_TOKENS, "temperature": 1.0, "prompt_logprobs": False, **fields})
    return replace(asked, received=received)


@pytest.mark.parametrize("name", BROKEN)
async def test_received_tokens_that_could_not_be_drawn_are_refused(name: str) -> None:
    fields, received, problem = BROKEN[name]
    stepper = Stepper("llama")
    with pytest.raises(ValueError, match=problem):
        stepper.submit(continued(fields, received))
    stepper.run()


@pytest.mark.parametrize("name", KEPT)
async def test_received_tokens_that_could_be_drawn_are_continued(name: str) -> None:
    fields, received = KEPT[name]
    rest = await Stepper("llama").complete(continued(fields, received))
    assert len(received) + len(rest.token_ids) == NEW_TOKENS or rest.reason
