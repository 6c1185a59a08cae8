"""Guided answers: the same bytes in company, predicted, cut, preempted, cached and in chunks."""

from dataclasses import replace
from typing import Any

import pytest

from outrider import FinishReason
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.guidance import Guidance
from services.engine.request import CachePolicy, Request
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of, random_prompt
from tests.e2e.matrix.transcript import Transcript
from tests.harness.grammar.grammars import compiler
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.harness.models.lora_folders import ALL_LINEAR, write_adapter

TOKENIZER = Tokenizer.from_model(folder("llama"))
NEGATIVE = {"shorter": tuple(random_prompt("negative", 3)), "longer": tuple(random_prompt("negative", 90))}
COLD = CachePolicy(prefix=False)
REGEX = compiler(TOKENIZER, VOCAB_SIZE).compile(GrammarSource(GrammarKind.REGEX, ("([a-m]{3}[n-z]{2})*",)))
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.9, "top_p": 0.9, "frequency_penalty": 0.5},
    "banned": {"temperature": 1.0, "banned_strings": ("e", "a", "o")},
    "grammar": {"temperature": 1.0, "grammar": REGEX},
}


def wanted(setting: str = "sampled", *, scale: float = 3.0, negative: str = "longer", **fields: Any) -> Request:
    options = {"seed": 11, "cache": COLD, "request_id": "guided", **SETTINGS[setting], **fields}
    guidance = Guidance(scale=scale, negative_prompt=NEGATIVE[negative])
    return request(prompt_of("llama", 4), guidance=guidance, **options)


async def alone(asked: Request) -> Transcript:
    return await Stepper("llama").complete(replace(asked, cache=COLD))


@pytest.mark.parametrize("kind", SCRIPTED)
@pytest.mark.parametrize("negative", NEGATIVE)
@pytest.mark.parametrize("setting", SETTINGS)
async def test_chunks_predictions_and_preemption_change_nothing(setting: str, negative: str, kind: str) -> None:
    whole = await alone(wanted(setting, negative=negative))
    scripted = ScriptedPredictor(lambda name: (kind, whole.token_ids) if name == "guided" else None, vocab_size=512)
    stepper = Stepper("llama", predictors=[scripted], num_blocks=12, prefill_chunk=16)
    company = [
        stepper.submit(request(prompt_of("llama", index), seed=index, temperature=1.0, max_tokens=60))
        for index in (7, 8)
    ]
    generation = stepper.submit(wanted(setting, negative=negative, num_predictions=5))
    stepper.run()
    assert await generation.transcript() == whole
    for each in company:
        await each.read()
    stats = generation.end.speculation
    assert sum(stats.accepted) > 0 or kind == "wrong"
    assert sum(stats.accepted) < sum(stats.offered) or kind == "right"
    assert stepper.scheduler.num_preemptions > 0 or negative == "shorter"
    assert stepper.blocks.num_free == stepper.blocks.num_blocks


@pytest.mark.parametrize("setting", SETTINGS)
async def test_a_continuation_has_the_same_bytes(setting: str) -> None:
    whole = await alone(wanted(setting))
    for cut in (0, 1, 7, 23):
        rest = await alone(replace(wanted(setting), received=whole.token_ids[:cut]))
        assert (rest.token_ids, rest.records) == (whole.token_ids[cut:], whole.records[cut:])


async def test_both_prompts_are_found_in_the_cache() -> None:
    asked = replace(wanted(prompt_logprobs=False), cache=CachePolicy())
    stepper, expected = Stepper("llama"), await alone(asked)
    computed = []
    for _ in range(2):
        before = stepper.scheduler.num_rows
        assert await stepper.complete(asked) == expected
        computed.append(stepper.scheduler.num_rows - before)
    cached = [len(text) // 32 * 32 for text in (asked.prompt, NEGATIVE["longer"])]
    assert computed[0] - computed[1] == sum(cached) > 64


async def test_each_guided_sample_is_its_own() -> None:
    asked = wanted(num_samples=3, num_predictions=3)
    expected = [await alone(each) for each in asked.samples]
    stepper = Stepper("llama", prefill_chunk=16)
    generations = stepper.submit_samples(asked)
    stepper.run()
    assert [await each.transcript() for each in generations] == expected
    assert stepper.scheduler.num_rows < 2 * (len(asked.prompt) + len(NEGATIVE["longer"])) + 3 * 2 * 40
    assert len({each.token_ids for each in expected}) == 3


async def test_both_texts_are_by_the_same_adapter(tmp_path: Any) -> None:
    lora = write_adapter(tmp_path / "lora", folder("llama"), seed=3, rank=8, modules=ALL_LINEAR)
    asked = wanted(lora="own")
    expected = await Stepper("llama", loras={"own": lora}).complete(asked)
    stepper = Stepper("llama", loras={"own": lora})
    stepper.submit(wanted(seed=12))
    assert await stepper.complete(asked) == expected
    assert expected.token_ids != (await alone(wanted())).token_ids


async def test_scale_and_negative_prompt_change_the_tokens() -> None:
    plain = await alone(replace(wanted(), guidance=None))
    others = [await alone(wanted(**each)) for each in ({}, {"scale": 1.5}, {"negative": "shorter"})]
    assert len({each.token_ids for each in (plain, *others)}) == 4


async def test_the_prompt_as_its_own_negative_draws_as_without_one() -> None:
    asked = wanted("greedy")
    same = replace(asked, guidance=Guidance(scale=5.0, negative_prompt=asked.prompt))
    assert (await alone(same)).token_ids == (await alone(replace(asked, guidance=None))).token_ids


async def test_both_texts_share_the_context() -> None:
    asked = wanted(max_tokens=10_000)
    stepper = Stepper("llama", num_blocks=8)
    whole = await stepper.complete(asked)
    room = (8 * 32 - 32 - len(asked.prompt) - len(NEGATIVE["longer"])) // 2
    assert (len(whole.token_ids), whole.reason) == (room, str(FinishReason.CONTEXT_LENGTH))
