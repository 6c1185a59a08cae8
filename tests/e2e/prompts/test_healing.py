"""A healed prompt continues as one that ended with the healed token, in all circumstances and after any cut."""

import math
from dataclasses import replace
from typing import Any

import pytest

from services.engine.request import Loop, Request
from services.engine.text.healing import Healing, plan_healing
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.harness.models.checkpoints import VOCAB_SIZE, byte_level_tokenizer

MODELS = ("llama", "qwen3", "gemma2", "qwen3_5")
TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
PROMPT = (*prompt_of("llama", 3), *TOKENIZER.encode(" ", add_special_tokens=False))
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 1.0, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.3, "frequency_penalty": 0.7, "presence_penalty": 0.5},
    "held off": {"temperature": 1.0, "min_tokens": 12, "token_ids": frozenset(range(30, 200))},
    "looped": {"temperature": 0.3, "logit_bias": {70: 30.0, 71: 30.0}, "loop": Loop(window=6, repetitions=3)},
}


def healing() -> Healing:
    """How the prompt is healed: there is much to choose from."""
    plan = plan_healing(PROMPT, TOKENIZER, vocab_size=VOCAB_SIZE)
    assert plan is not None
    assert VOCAB_SIZE - len(plan.masked_ids) > 20
    return plan


def healed(setting: str, **fields: Any) -> Request:
    """A request with a prompt to heal."""
    return request(PROMPT, **SETTINGS[setting], seed=11, max_tokens=24, healing=healing(), **fields)


async def healed_token(stepper: Stepper, wanted: Request) -> int:
    """The token that the model puts at the prompt's end if all others are forbidden: drawn as a generated one."""
    sampling = replace(wanted.sampling, logit_bias={})
    biases = wanted.sampling.logit_bias | dict.fromkeys(healing().masked_ids, -math.inf)
    stops = replace(wanted.stops, min_tokens=0, token_ids=frozenset(), max_tokens=1)
    alone = replace(
        wanted, prompt=PROMPT[:-1], healing=None, sampling=replace(sampling, logit_bias=biases), stops=stops
    )
    (token_id,) = (await stepper.complete(alone)).token_ids
    return token_id


def predicting(model: str, kind: str, whole: Transcript, **engine: Any) -> Stepper:
    """A stepper whose predictor has the model's answer, or a wrong one."""
    predictor = ScriptedPredictor(lambda name: (kind, whole.token_ids), vocab_size=VOCAB_SIZE)
    return Stepper(model, predictors=[predictor], **engine)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
async def test_a_healed_prompt_continues_as_if_it_ended_healed(model: str, setting: str):
    stepper, wanted = Stepper(model), healed(setting)
    token_id = await healed_token(stepper, wanted)
    plain = await stepper.complete(replace(wanted, prompt=(*PROMPT[:-1], token_id), healing=None))
    whole = await stepper.complete(wanted)
    assert (whole.token_ids, whole.records, whole.reason) == (plain.token_ids, plain.records, plain.reason)
    visible = (i for i in whole.token_ids if not TOKENIZER.is_special(i) and i not in wanted.stops.token_ids)
    data = TOKENIZER.token_bytes(token_id)[len(b" ") :] + b"".join(map(TOKENIZER.token_bytes, visible))
    assert whole.text == data.decode(errors="replace")
    assert (whole.reason == "loop") == (setting == "looped")


async def test_healing_changes_the_prompts_end_at_times():
    stepper = Stepper("llama")
    drawn = {await healed_token(stepper, request(PROMPT, temperature=1.0, seed=seed)) for seed in range(8)}
    assert len(drawn - {PROMPT[-1]}) > 2


@pytest.mark.parametrize("kind", SCRIPTED)
@pytest.mark.parametrize("model", MODELS)
async def test_predictions_and_company_change_nothing(model: str, kind: str):
    wanted = healed("sampled", num_predictions=5)
    alone = await Stepper(model).complete(wanted)
    stepper = predicting(model, kind, alone, prefill_chunk=7)
    others = [stepper.submit(request(prompt_of("llama", n), seed=n, max_tokens=30)) for n in range(4)]
    crowd = [stepper.submit(wanted) for _ in range(3)]
    stepper.run()
    assert [await generation.transcript() for generation in crowd] == [alone] * 3
    assert all([(await generation.transcript()).token_ids for generation in others])
    assert kind == "wrong" or sum(crowd[0].end.speculation.accepted) > 0


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
async def test_a_healed_answer_cut_after_any_token_has_the_same_rest(model: str, setting: str):
    wanted = healed(setting, strings=("\0 never",), include_stop=True, num_predictions=3)
    whole, generation = await Stepper(model).one_by_one(wanted)
    texts = generation.boundaries()
    stepper = predicting(model, "mixed", whole, prefill_chunk=16)
    for cut in range(len(whole.token_ids) + 1):
        generation = stepper.submit(replace(wanted, received=whole.token_ids[:cut]))
        stepper.run()
        rest = await generation.transcript()
        assert (rest.token_ids, rest.records) == (whole.token_ids[cut:], whole.records[cut:])
        assert texts[cut] + rest.text == whole.text
        assert (rest.reason, rest.stop) == (whole.reason, whole.stop)
        assert generation.end.completion_tokens == len(whole.token_ids)


async def test_a_preempted_healed_prompt_starts_again_with_its_bytes():
    wanted = healed("sampled")
    alone = await Stepper("llama").complete(wanted)
    stepper = Stepper("llama", num_blocks=4, prefill_chunk=5)
    crowd = [stepper.submit(wanted) for _ in range(4)]
    stepper.run()
    assert [await generation.transcript() for generation in crowd] == [alone] * 4
    assert stepper.scheduler.num_preemptions > 0
