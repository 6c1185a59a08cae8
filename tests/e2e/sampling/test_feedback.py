"""Samplers that feed back: predictions, company, preemption and cuts change nothing, with any masks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from services.engine.allowed_tokens import AllowedTokens
from services.engine.events import Event, Refused
from services.engine.forced_tokens import ForcedIds
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.engine.thinking_budget import ThinkingBudget
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.harness.grammar.grammars import compiler
from tests.harness.models.checkpoints import VOCAB_SIZE

TOKENIZER = Tokenizer.from_model(folder("llama"))
NEW_TOKENS = 40
STEERED: dict[str, Mapping[str, Any]] = {
    "mirostat 2": {"mirostat_mode": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5},
    "mirostat 1": {"mirostat_mode": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.5, "temperature": 1.5},
    "adaptive-p": {"adaptive_target": 0.3, "adaptive_decay": 0.7},
    "penalised": {
        **{"mirostat_mode": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5, "repetition_penalty": 1.3},
        **{"no_repeat_ngram_size": 2, "dry_multiplier": 0.5, "frequency_penalty": 0.4, "min_tokens": 30},
    },
    "before others": {
        **{"mirostat_mode": 2, "mirostat_tau": 2.0, "mirostat_eta": 0.5, "temperature": 1.4, "top_k": 50},
        "samplers": ("mirostat", "temperature", "top_k"),
    },
}


def masked(name: str) -> Mapping[str, Any]:
    """The other rules that restrict the tokens drawn, each in its own way."""
    match name:
        case "grammar":
            source = GrammarSource(GrammarKind.REGEX, ("([a-z]{1,9} ?,)+",))
            return {"grammar": compiler(TOKENIZER, VOCAB_SIZE).compile(source)}
        case "thought":
            end = b"!"
            budget = ThinkingBudget(
                **{"max_tokens": 9, "is_begun": True, "start": b"?", "end": end, "end_ids": (4, 5)},
                **{"tokenizer": TOKENIZER, "vocab_size": VOCAB_SIZE},
            )
            return {"thinking": budget}
        case "forced":
            last = ForcedIds(second=(77,), last=(1, 300))
            places = last.in_answer(num_prompt=1, min_tokens=0, max_tokens=NEW_TOKENS, vocab_size=VOCAB_SIZE)
            return {"forced": places}
        case _:
            return {"allowed_tokens": AllowedTokens.of(range(40, 440), vocab_size=VOCAB_SIZE)}


def wanted(setting: Mapping[str, Any], **fields: Any) -> Request:
    options = {"temperature": 1.0, "seed": 11, "max_tokens": NEW_TOKENS, "prompt_logprobs": False, **setting, **fields}
    return request(prompt_of("llama", 4), request_id="wanted", **options)


async def assert_nothing_changes_it(setting: Mapping[str, Any], kind: str) -> None:
    whole = await Stepper("llama").complete(wanted(setting))
    scripted = ScriptedPredictor(
        lambda name: (kind, whole.token_ids) if name == "wanted" else None, vocab_size=VOCAB_SIZE
    )
    stepper = Stepper("llama", predictors=[scripted], num_blocks=5, prefill_chunk=16)
    company = stepper.submit(request(prompt_of("llama", 7), seed=1, temperature=1.0, max_tokens=60))
    generation = stepper.submit(wanted(setting, num_predictions=5))
    stepper.run()
    assert await generation.transcript() == whole
    await company.read()
    assert generation.end.preemptions > 0
    stats = generation.end.speculation
    assert sum(stats.accepted) > 0 or kind == "wrong"
    assert sum(stats.accepted) < sum(stats.offered) or kind == "right"
    for cut in (1, 17, len(whole.token_ids) - 1):
        received = tuple(whole.token_ids[:cut])
        for chunk in (1, 7, 100):
            rest = Stepper("llama", predictors=[scripted], prefill_chunk=chunk)
            continued = await rest.complete(replace(wanted(setting, num_predictions=3), received=received))
            assert (*received, *continued.token_ids) == whole.token_ids
            assert continued.records == whole.records[cut:]


@pytest.mark.parametrize("kind", SCRIPTED)
@pytest.mark.parametrize("name", STEERED)
async def test_predictions_preemption_and_cuts_change_nothing(name: str, kind: str) -> None:
    await assert_nothing_changes_it(STEERED[name], kind)


@pytest.mark.parametrize("mask", ["grammar", "thought", "forced", "allowed"])
async def test_predictions_and_cuts_change_nothing_where_masks_apply(mask: str) -> None:
    await assert_nothing_changes_it({**STEERED["mirostat 2"], **masked(mask)}, "mixed")


@pytest.mark.parametrize("name", STEERED)
async def test_a_feedback_level_that_stays_gives_another_answer(name: str) -> None:
    """Else the tests above would find nothing: a level that stays at its beginning gives another answer."""
    setting = STEERED[name]
    whole = await Stepper("llama").complete(wanted(setting))
    stays = {"adaptive_decay": 0.99} if name == "adaptive-p" else {"mirostat_eta": 0.0}
    still = await Stepper("llama").complete(wanted({**setting, **stays}))
    assert still.token_ids != whole.token_ids
    assert still.token_ids[0] == whole.token_ids[0]


async def test_a_warm_cache_still_computes_rows_of_received_tokens() -> None:
    setting = STEERED["mirostat 2"]
    stepper = Stepper("llama")
    whole = await stepper.complete(wanted(setting))
    received = tuple(whole.token_ids[:33])
    computed = stepper.runner.num_tokens
    rest = await stepper.complete(replace(wanted(setting), received=received))
    assert (*received, *rest.token_ids) == whole.token_ids
    assert stepper.runner.num_tokens - computed >= NEW_TOKENS


async def test_a_preempted_continuation_keeps_its_bytes() -> None:
    setting = STEERED["adaptive-p"]
    whole = await Stepper("llama").complete(wanted(setting))
    received = tuple(whole.token_ids[:30])
    stepper = Stepper("llama", num_blocks=5, prefill_chunk=16)
    company = stepper.submit(request(prompt_of("llama", 7), seed=1, temperature=1.0, max_tokens=60))
    generation = stepper.submit(replace(wanted(setting), received=received))
    stepper.run()
    assert (*received, *(await generation.transcript()).token_ids) == whole.token_ids
    await company.read()


@pytest.mark.parametrize("name", ["mirostat 2", "mirostat 1"])
async def test_a_received_token_that_could_not_be_drawn_is_refused(name: str) -> None:
    setting = {**STEERED[name], "mirostat_tau": 0.0}
    whole = await Stepper("llama").complete(wanted(setting))
    wrong = (whole.token_ids[0], (whole.token_ids[1] + 1) % VOCAB_SIZE, whole.token_ids[2])
    stepper = Stepper("llama")
    generation = stepper.submit(replace(wanted(setting), received=wrong))
    stepper.run()
    events: list[Event] = await generation.read()
    assert events[-1] == Refused("the token at 1 of those received could not be drawn there")
    assert not stepper.scheduler.sequences


async def test_each_sample_has_levels_of_its_own() -> None:
    setting = STEERED["mirostat 2"]
    asked = wanted(setting, num_samples=3)
    stepper = Stepper("llama")
    samples = stepper.submit_samples(asked)
    stepper.run()
    together = [(await sample.transcript()).token_ids for sample in samples]
    alone = [(await Stepper("llama").complete(sample)).token_ids for sample in asked.samples]
    assert together == alone
    assert len({*together}) == 3
