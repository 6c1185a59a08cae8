"""Several samples of one prompt: each has the bytes of a request of its own, and the prompt is computed once.

Before each pass every block that holds nothing to be found is full of NaN.
"""

from dataclasses import replace
from typing import Any

import pytest

from services.engine.decoder.native import BLOCK_SIZE, derive_seed
from services.engine.request import CachePolicy, Request
from services.engine.text.healing import plan_healing
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of, random_prompt
from tests.e2e.matrix.transcript import Transcript

MODELS = ("llama", "qwen3", "gemma2", "qwen3_5")
PROMPT = random_prompt("samples", 3 * BLOCK_SIZE + 9)
NUM_SAMPLES = 5
COLD = CachePolicy(prefix=False)
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.9, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.2, "frequency_penalty": 0.7},
}


def several(prompt: list[int] = PROMPT, **fields: Any) -> Request:
    return request(prompt, **{"temperature": 0.9, "seed": 11, "num_samples": NUM_SAMPLES, "cache": COLD, **fields})


async def each_alone(model: str, wanted: Request) -> list[Transcript]:
    """The answers to a request of its own for every seed."""
    seeds = [derive_seed(wanted.sampling.seed, index) for index in range(wanted.num_samples)]
    assert seeds[0] == wanted.sampling.seed
    requests = [replace(wanted, num_samples=1, sampling=replace(wanted.sampling, seed=seed)) for seed in seeds]
    silent = replace(wanted.output, prompt_logprobs=False)  # the first sample has the prompt's records
    requests[1:] = [replace(one, output=silent) for one in requests[1:]]
    return [await Stepper(model).complete(one) for one in requests]


async def read(generations: list[Generation]) -> list[Transcript]:
    return [await generation.transcript() for generation in generations]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
async def test_every_sample_is_a_request_of_its_own(model: str, setting: str):
    wanted = several(num_predictions=6, **SETTINGS[setting])
    alone = await each_alone(model, wanted)
    assert (len({answer.token_ids for answer in alone}) > 1) == (setting != "greedy")
    for kind in SCRIPTED:
        # every sample gets the first one's predictions: what the others make of them is another mixture
        predictor = ScriptedPredictor(lambda name, kind=kind: (kind, alone[0].token_ids), vocab_size=512)
        stepper = Stepper(model, predictors=[predictor], prefill_chunk=48)
        generations = stepper.submit_samples(wanted)
        stepper.run()
        assert await read(generations) == alone
        assert stepper.most_sequences == NUM_SAMPLES
        first, *others = (generation.end.speculation for generation in generations)
        assert (sum(first.accepted) > 0, sum(first.offered) > sum(first.accepted)) == (kind != "wrong", kind != "right")
        assert all(sum(other.offered) > 0 for other in others)


@pytest.mark.parametrize("length", [1, 2, 32, 33, 34, 64, 65, 66, 90])
async def test_the_prompt_is_computed_once_and_a_begun_block_is_copied(length: int):
    wanted = several(PROMPT[:length], max_tokens=9)
    stepper = Stepper("gemma2", prefill_chunk=20)
    generations = stepper.submit_samples(wanted)
    stepper.run()
    assert await read(generations) == await each_alone("gemma2", wanted)
    num_decoded = NUM_SAMPLES * (9 - 1)
    assert stepper.runner.num_tokens == length - 1 + NUM_SAMPLES + num_decoded
    has_begun_block = (length - 1) % BLOCK_SIZE > 0
    assert stepper.num_copies == (NUM_SAMPLES - 1) * has_begun_block
    assert [generation.end.cached_tokens for generation in generations[1:]] == [length - 1] * (NUM_SAMPLES - 1)


async def test_one_token_of_each_sample_can_be_generated():
    wanted = several(max_tokens=1)
    stepper = Stepper("llama")
    generations = stepper.submit_samples(wanted)
    stepper.run()
    assert await read(generations) == await each_alone("llama", wanted)
    assert stepper.runner.num_tokens == len(PROMPT) - 1 + NUM_SAMPLES


@pytest.mark.parametrize("policy", [COLD, CachePolicy()], ids=["cold", "cached"])
async def test_preempted_samples_keep_their_bytes(policy: CachePolicy):
    wanted = several(max_tokens=90, num_predictions=5, cache=policy)
    alone = await each_alone("qwen3", wanted)
    mixed = ScriptedPredictor(lambda name: ("mixed", alone[0].token_ids), vocab_size=512)
    stepper = Stepper("qwen3", num_blocks=12, prefill_chunk=48, predictors=[mixed])
    generations = stepper.submit_samples(wanted)
    stepper.run()
    assert await read(generations) == alone
    assert sum(generation.end.preemptions for generation in generations) > 0
    assert stepper.num_copies > 0
    assert stepper.blocks.num_free == 12


async def test_samples_and_other_requests_keep_their_bytes():
    others = [request(prompt_of("llama", index), seed=index, temperature=0.9, max_tokens=50) for index in range(6)]
    wanted = several(max_tokens=50)
    alone = [await Stepper("llama").complete(other) for other in others] + await each_alone("llama", wanted)
    stepper = Stepper("llama", num_blocks=20, prefill_chunk=16)
    generations = [stepper.submit(other) for other in others[:3]]
    stepper.step()
    samples = stepper.submit_samples(wanted)
    generations += [stepper.submit(other) for other in others[3:]]
    stepper.run()
    assert await read([*generations, *samples]) == alone
    assert stepper.most_sequences > NUM_SAMPLES


async def test_each_sample_heals_the_prompt_its_own_way():
    stepper = Stepper("llama")
    prompt = [*PROMPT[:40], *stepper.tokenizer.encode(" ", add_special_tokens=False)]
    healing = plan_healing(prompt, stepper.tokenizer, vocab_size=stepper.vocab_size)
    assert healing is not None
    wanted = several(prompt, temperature=4.0, healing=healing, max_tokens=20)
    generations = stepper.submit_samples(wanted)
    stepper.run()
    assert await read(generations) == await each_alone("llama", wanted)
    assert len({generation.sequence.tokens[len(prompt) - 1] for generation in generations}) > 1
    assert stepper.num_copies == NUM_SAMPLES - 1


@pytest.mark.parametrize("num_steps", [0, 1, 3, 5, 12])
async def test_cancelling_frees_everything_at_any_time(num_steps: int):
    wanted = several(max_tokens=40)
    alone = await each_alone("llama", wanted)
    stepper = Stepper("llama", prefill_chunk=32)
    generations = stepper.submit_samples(wanted)
    for _ in range(num_steps):
        stepper.step()
    stepper.drop(generations[0])
    stepper.drop(generations[3])
    stepper.run()
    rest = [1, 2, 4]
    assert await read([generations[index] for index in rest]) == [alone[index] for index in rest]
    assert stepper.blocks.num_free == stepper.blocks.num_blocks
