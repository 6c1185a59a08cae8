"""A bounded thought ends at the same token with any predictions, company and cuts."""

from dataclasses import replace
from typing import Any

import pytest

from outrider import FinishReason
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.engine.thinking_budget import ThinkingBudget
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.harness.models.checkpoints import VOCAB_SIZE

MAX_TOKENS, NEW_TOKENS = 9, 32
TOKENIZER = Tokenizer.from_model(folder("llama"))
END_IDS = tuple(TOKENIZER.encode("</think>", add_special_tokens=False))
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 1.0, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "logit_bias": {END_IDS[0]: -100.0}},
    "banned": {"temperature": 1.0, "banned_strings": ("e", "a", "o")},
}


def budget(start: bytes | None = None) -> ThinkingBudget:
    return ThinkingBudget(
        max_tokens=MAX_TOKENS,
        is_begun=start is None,
        start=start or b"<think>",
        end=b"</think>",
        end_ids=END_IDS,
        tokenizer=TOKENIZER,
        vocab_size=VOCAB_SIZE,
    )


def wanted(setting: str, **fields: Any) -> Request:
    options = {"seed": 11, "max_tokens": NEW_TOKENS, "thinking": budget(), **SETTINGS[setting], **fields}
    return request(prompt_of("llama", 2), request_id=setting, **options)


def predicting(kind: str, whole: Transcript, **engine: Any) -> Stepper:
    scripted = ScriptedPredictor(lambda name: (kind, whole.token_ids), vocab_size=VOCAB_SIZE)
    return Stepper("llama", predictors=[scripted], **engine)


@pytest.mark.parametrize("kind", SCRIPTED)
@pytest.mark.parametrize("setting", SETTINGS)
async def test_predictions_preemption_and_cuts_change_nothing(setting: str, kind: str) -> None:
    whole = await Stepper("llama").complete(wanted(setting))
    end = MAX_TOKENS + len(END_IDS)
    assert tuple(whole.token_ids[MAX_TOKENS:end]) == END_IDS
    assert len(whole.token_ids) == NEW_TOKENS
    stepper = predicting(kind, whole, num_blocks=9, prefill_chunk=16)
    company = stepper.submit(request(prompt_of("llama", 7), seed=1, temperature=1.0, max_tokens=60))
    generation = stepper.submit(wanted(setting, num_predictions=5))
    stepper.run()
    assert await generation.transcript() == whole
    await company.read()
    stats = generation.end.speculation
    assert sum(stats.accepted) > 0 or kind == "wrong"
    assert sum(stats.accepted) < sum(stats.offered) or kind == "right"
    for cut in (MAX_TOKENS - 1, MAX_TOKENS + 2, end):
        received = tuple(whole.token_ids[:cut])
        rest = predicting(kind, whole).complete(replace(wanted(setting), received=received))
        assert [*received, *(await rest).token_ids] == [*whole.token_ids]


async def test_a_thought_begun_by_the_answer_is_bounded_too() -> None:
    plain = await Stepper("llama").complete(wanted("greedy", thinking=None))
    first = TOKENIZER.token_bytes(plain.token_ids[0]).lstrip()
    assert first
    whole = await Stepper("llama").complete(wanted("greedy", thinking=budget(first)))
    assert whole.token_ids[: 1 + MAX_TOKENS] == plain.token_ids[: 1 + MAX_TOKENS]
    assert tuple(whole.token_ids[1 + MAX_TOKENS :][: len(END_IDS)]) == END_IDS


async def test_a_mark_that_is_banned_ends_the_answer() -> None:
    whole = await Stepper("llama").complete(wanted("greedy", banned_strings=("think",)))
    assert whole.reason == str(FinishReason.NO_CANDIDATES)
    assert "think" not in whole.text


async def test_received_tokens_without_the_forced_mark_are_refused() -> None:
    whole = await Stepper("llama").complete(wanted("greedy", thinking=None))
    received = tuple(whole.token_ids[: MAX_TOKENS + 2])
    with pytest.raises(ValueError, match=f"max_thinking_tokens forces token {END_IDS[0]} at {MAX_TOKENS}"):
        Stepper("llama").submit(replace(wanted("greedy"), received=received))
