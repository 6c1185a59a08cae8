"""With a list of allowed tokens, an answer has the same bytes with any predictions, company and cuts."""

from dataclasses import replace
from typing import Any

import pytest

from services.engine.allowed_tokens import AllowedTokens
from services.engine.request import Request
from services.target.speculation.predictors.predictor import Predictor
from tests.e2e.grammar.test_grammar import RandomPredictor
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.harness.models.checkpoints import VOCAB_SIZE

SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 1.0, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.3, "frequency_penalty": 0.7, "logit_bias": {70: 3.0}},
    "held off": {"temperature": 1.0, "min_tokens": 12, "token_ids": frozenset(range(30, 200))},
    "banned": {"temperature": 1.0, "banned_strings": ("e", "t", "a")},
}
ALLOWED = AllowedTokens.of([*range(60, 90), *range(100, 500, 9)], vocab_size=VOCAB_SIZE)


def wanted(setting: str, model: str, **fields: Any) -> Request:
    options = {"seed": 11, "max_tokens": 32, "allowed_tokens": ALLOWED, **SETTINGS[setting], **fields}
    return request(prompt_of(model, 2), request_id=setting, **options)


def predicting(model: str, kind: str, whole: Transcript, **engine: Any) -> Stepper:
    if kind == "random":  # a part of it is allowed
        predictor: Predictor = RandomPredictor(VOCAB_SIZE)
    else:
        predictor = ScriptedPredictor(lambda name: (kind, whole.token_ids), vocab_size=VOCAB_SIZE)
    return Stepper(model, predictors=[predictor], **engine)


@pytest.mark.parametrize("kind", [*SCRIPTED, "random"])
@pytest.mark.parametrize("setting", SETTINGS)
async def test_predictions_company_and_cuts_change_nothing(setting: str, kind: str):
    whole = await Stepper("llama").complete(wanted(setting, "llama"))
    assert len(whole.token_ids) > 3
    assert all(token_id in ALLOWED for token_id in whole.token_ids)
    stepper = predicting("llama", kind, whole, num_blocks=9, prefill_chunk=16)
    company = stepper.submit(request(prompt_of("llama", 7), seed=1, temperature=1.0, max_tokens=60))
    generation = stepper.submit(wanted(setting, "llama", num_predictions=5))
    stepper.run()
    assert await generation.transcript() == whole
    await company.read()
    stats = generation.end.speculation
    assert sum(stats.accepted) > 0 or kind in {"wrong", "random"}
    for cut in (1, len(whole.token_ids) // 2):
        received = tuple(whole.token_ids[:cut])
        rest = predicting("llama", kind, whole).complete(replace(wanted(setting, "llama"), received=received))
        assert [*received, *(await rest).token_ids] == [*whole.token_ids]


async def test_tokens_that_are_not_allowed_are_not_verified():
    whole = await Stepper("llama").complete(wanted("sampled", "llama"))
    stepper = Stepper("llama", predictors=[RandomPredictor(VOCAB_SIZE)])
    everything = replace(wanted("sampled", "llama", num_predictions=5), request_id="everything")
    generation = stepper.submit(everything)
    stepper.run()
    assert (await generation.transcript()).token_ids == whole.token_ids
    num_offered = sum(generation.end.speculation.offered)
    share = len([1 for token_id in range(VOCAB_SIZE) if token_id in ALLOWED]) / VOCAB_SIZE
    assert 0 < num_offered < 5 * len(whole.token_ids) * 2 * share
