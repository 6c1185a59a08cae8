"""Scores of texts after a prompt: the bits of a prompt's own records, in any chunks and any company."""

from dataclasses import replace

import pytest

from services.engine.events import Finished, FinishReason, Progress, Scheduled, TokenRecord
from services.engine.request import CachePolicy, Request
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.harness.models.checkpoints import VOCAB_SIZE

MODELS = ("llama", "qwen3", "gemma2")
PROMPT = prompt_of("llama", 7)
WARM, COLD = CachePolicy(), CachePolicy(prefix=False)
CHOICES = (PROMPT[:1], PROMPT[3:40], PROMPT[5:7], PROMPT[:20])


def scored(cache: CachePolicy = WARM, choices: tuple[list[int], ...] = CHOICES) -> list[Request]:
    """A request for each choice."""
    common = {"max_tokens": 0, "cache": cache, "num_samples": len(choices)}
    return [request([*PROMPT, *choice], num_scored=len(choice), **common) for choice in choices]


def submit(stepper: Stepper, requests: list[Request]) -> list[Generation]:
    first = stepper.submit(requests[0])
    return [first, *(stepper.submit(one, first.sequence) for one in requests[1:])]


async def told(generations: list[Generation]) -> list[list[TokenRecord]]:
    """The records of each choice; after them only the end came."""
    for generation in generations:
        *progress, end = await generation.read()
        assert isinstance(end, Finished)
        assert (end.reason, end.completion_tokens) == (FinishReason.MAX_TOKENS, 0)
        assert all(isinstance(event, Scheduled | Progress) for event in progress)
    return [records_of(generation) for generation in generations]


def records_of(generation: Generation) -> list[TokenRecord]:
    return [record for event in generation.events if isinstance(event, Progress) for record in event.records]


async def as_prompts(model: str) -> list[list[TokenRecord]]:
    """The records of the choices as ends of prompts, each by itself."""
    records = []
    for choice in CHOICES:
        stepper = Stepper(model)
        generation = stepper.submit(request([*PROMPT, *choice], max_tokens=1))
        stepper.run()
        await generation.read()
        records.append(records_of(generation)[len(PROMPT) :])
    return records


@pytest.mark.parametrize("model", MODELS)
async def test_scores_are_the_records_of_prompts(model: str):
    expected = await as_prompts(model)
    for chunk in (1, 7, 16, 4096):
        stepper = Stepper(model, prefill_chunk=chunk)
        generations = submit(stepper, scored())
        stepper.run()
        assert await told(generations) == expected
        assert stepper.blocks.num_by_state["used"] == 0


@pytest.mark.parametrize("cache", [CachePolicy(), COLD], ids=["cached", "not cached"])
async def test_scoring_computes_the_prompt_once(cache: CachePolicy):
    stepper = Stepper("llama")
    generations = submit(stepper, scored(cache))
    stepper.run()
    await told(generations)
    rows_of_choices = sum(len(choice) for choice in CHOICES)
    assert stepper.runner.num_tokens == len(PROMPT) - 1 + rows_of_choices


async def test_a_warm_cache_saves_all_rows_but_the_scored_ones():
    stepper = Stepper("llama", prefill_chunk=16)
    cold = submit(stepper, scored())
    stepper.run()
    before = stepper.runner.num_tokens
    warm = submit(stepper, scored())
    stepper.run()
    assert await told(warm) == await told(cold)
    assert warm[0].sequence.num_cached >= len(PROMPT) - 2 * 16
    assert stepper.runner.num_tokens - before < before


async def test_scores_beside_predicted_generations_keep_their_bits():
    expected = await as_prompts("llama")
    options = {"temperature": 0.9, "num_predictions": 3}
    wanted = [request(PROMPT[:9], seed=seed, request_id=f"{seed}", **options) for seed in range(3)]
    alone = [await Stepper("llama").complete(one) for one in wanted]
    scripts = {f"{seed}": ("mixed", transcript.token_ids) for seed, transcript in enumerate(alone)}
    predictor = ScriptedPredictor(scripts.get, vocab_size=VOCAB_SIZE)
    stepper = Stepper("llama", predictors=[predictor], prefill_chunk=5)
    crowd = [stepper.submit(one) for one in wanted]
    generations = submit(stepper, scored())
    stepper.run()
    assert await told(generations) == expected
    assert [await generation.transcript() for generation in crowd] == alone
    stats = [generation.sequence.speculation for generation in crowd]
    assert all(0 < sum(one.accepted) < sum(one.offered) for one in stats)


async def test_preempted_scores_are_reported_once():
    expected = await as_prompts("llama")
    stepper = Stepper("llama", num_blocks=9, prefill_chunk=1)
    crowd = [stepper.submit(request(PROMPT[:9], seed=seed, max_tokens=80, cache=COLD)) for seed in range(3)]
    generations = [stepper.submit(replace(one, num_samples=1)) for one in scored(COLD)]
    stepper.run()
    assert await told(generations) == expected
    assert any(generation.sequence.num_preemptions for generation in generations)
    for generation in crowd:
        await generation.read()
