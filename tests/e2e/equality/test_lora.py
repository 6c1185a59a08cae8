"""Adapters in one batch: each answer is its own to the byte, beside others, predicted, cut, preempted and cached."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.engine.decoder.native import BLOCK_SIZE
from services.engine.request import CachePolicy, Request
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of, random_prompt
from tests.e2e.matrix.transcript import Transcript
from tests.harness.models.lora_folders import ALL_LINEAR, FUSED, write_adapter

MODELS = {"llama": ALL_LINEAR, "gemma2": ("q_proj", "v_proj"), "phi3": FUSED}
NAMES = ("first", "", "second", "first", "")
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.9, "top_p": 0.9, "frequency_penalty": 0.5},
}
COLD = CachePolicy(prefix=False)


@pytest.fixture(scope="module")
def loras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Path]]:
    """Two adapters of each model, of different ranks."""
    path = tmp_path_factory.mktemp("loras")
    return {
        model: {
            name: write_adapter(path / model / name, folder(model), seed=rank, rank=rank, modules=modules)
            for name, rank in (("first", 8), ("second", 13))
        }
        for model, modules in MODELS.items()
    }


def asking(model: str, index: int, **fields: Any) -> Request:
    return request(prompt_of(model, index), request_id=str(index), seed=index, lora=NAMES[index], **fields)


async def alone(model: str, wanted: Request, loras: dict[str, Path]) -> Transcript:
    """The answer of an engine that has no other adapter, without one prediction, and nothing cached."""
    own = {wanted.lora.name: loras[wanted.lora.name]} if wanted.lora else {}
    return await Stepper(model, loras=own).complete(replace(wanted, cache=COLD))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
async def test_answers_with_adapters_together_are_those_of_each_alone(
    model: str, setting: str, loras: dict[str, dict[str, Path]]
) -> None:
    wanted = [asking(model, index, num_predictions=5, **SETTINGS[setting]) for index in range(len(NAMES))]
    expected = [await alone(model, each, loras[model]) for each in wanted]
    assert len({each.token_ids for each in expected}) == len(NAMES)
    script = {each.request_id: answer.token_ids for each, answer in zip(wanted, expected, strict=True)}
    predictor = ScriptedPredictor(lambda name: ("mixed", script[name]), vocab_size=512)
    stepper = Stepper(model, predictors=[predictor], loras=loras[model], prefill_chunk=16)
    generations = [stepper.submit(each) for each in wanted]
    stepper.run()
    assert [await each.transcript() for each in generations] == expected
    for each in generations:
        offered, accepted = sum(each.end.speculation.offered), sum(each.end.speculation.accepted)
        assert 0 < accepted < offered


@pytest.mark.parametrize("cut", [0, 1, 7, 23])
async def test_a_continuation_has_the_same_bytes(cut: int, loras: dict[str, dict[str, Path]]) -> None:
    wanted = asking("llama", 0, temperature=0.9)
    whole = await alone("llama", wanted, loras["llama"])
    stepper = Stepper("llama", loras=loras["llama"])
    beside = stepper.submit(asking("llama", 2))
    rest = await stepper.complete(replace(wanted, received=whole.token_ids[:cut]))
    assert (rest.token_ids, rest.records) == (whole.token_ids[cut:], whole.records[cut:])
    assert beside.sequence.is_finished


async def test_a_preempted_answer_is_computed_anew_by_its_own_adapter(loras: dict[str, dict[str, Path]]) -> None:
    wanted = [asking("llama", index, temperature=0.9, max_tokens=60, cache=COLD) for index in range(len(NAMES))]
    expected = [await alone("llama", each, loras["llama"]) for each in wanted]
    stepper = Stepper("llama", loras=loras["llama"], num_blocks=8)
    generations = [stepper.submit(each) for each in wanted]
    stepper.run()
    assert [await each.transcript() for each in generations] == expected
    assert any(each.sequence.num_preemptions for each in generations)


async def test_keys_and_values_of_another_adapter_are_not_found(loras: dict[str, dict[str, Path]]) -> None:
    prompt = random_prompt("prefix", 3 * BLOCK_SIZE)
    stepper, seen = Stepper("llama", loras=loras["llama"]), set[str]()
    for name in ("", "first", "second", "first", ""):
        wanted = request([*prompt, 5], lora=name, prompt_logprobs=False)
        generation = stepper.submit(wanted)
        stepper.run()
        assert await generation.transcript() == await alone("llama", wanted, loras["llama"])
        assert generation.end.cached_tokens == (len(prompt) if name in seen else 0)
        seen.add(name)
