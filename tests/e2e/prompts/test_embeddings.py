"""Pooled hidden states of a text: the same bits in any chunks and any company."""

import numpy as np
import pytest

from services.engine.events import Finished, FinishReason
from services.engine.request import CachePolicy, Pooling, Request
from services.target.sequence.pooled_states import PooledStates
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.harness.models.checkpoints import VOCAB_SIZE

PROMPT = [*prompt_of("llama", 7), *prompt_of("llama", 8)]
WARM, COLD = CachePolicy(), CachePolicy(prefix=False)
POOLINGS = tuple(Pooling)


def embedded(pooling: Pooling, prompt: list[int] = PROMPT, cache: CachePolicy = WARM) -> Request:
    return request(prompt, pooling=pooling, max_tokens=0, prompt_logprobs=False, cache=cache)


async def told(generation: Generation) -> bytes:
    """The bytes of the vector; after it only the end came."""
    await generation.read()
    assert isinstance(generation.end, Finished)
    assert (generation.end.reason, generation.end.completion_tokens) == (FinishReason.MAX_TOKENS, 0)
    assert isinstance(generation.sequence.prompt_results, PooledStates)
    embedding = generation.sequence.prompt_results.embedding
    assert embedding is not None
    return embedding.tobytes()


async def alone(pooling: Pooling, prompt: list[int] = PROMPT, **options: int) -> bytes:
    stepper = Stepper("llama", **options)
    generation = stepper.submit(embedded(pooling, prompt))
    stepper.run()
    assert stepper.blocks.num_by_state["used"] == 0
    return await told(generation)


@pytest.mark.parametrize("pooling", POOLINGS)
async def test_embeddings_are_the_same_in_any_chunks(pooling: Pooling):
    whole = await alone(pooling)
    assert len(np.frombuffer(whole, np.float32)) > 1
    for chunk in (1, 7, 33):
        assert await alone(pooling, prefill_chunk=chunk) == whole


async def test_each_pooling_is_of_its_own_tokens():
    prompt, stepper = PROMPT[:12], Stepper("llama")
    last, mean, first = [np.frombuffer(await alone(each, prompt), np.float32) for each in POOLINGS]
    prefixes = [stepper.submit(embedded(Pooling.LAST, prompt[:end], COLD)) for end in range(1, len(prompt) + 1)]
    stepper.run()
    states = [np.frombuffer(await told(prefix), np.float32) for prefix in prefixes]
    assert np.array_equal(last, states[-1])
    assert np.array_equal(first, states[0])
    assert np.array_equal(mean, np.mean(np.array(states, np.float64), axis=0).astype(np.float32))


async def test_a_warm_cache_serves_the_last_token_and_not_the_mean():
    stepper = Stepper("llama")
    cold = stepper.submit(embedded(Pooling.LAST))
    stepper.run()
    expected, cached = await told(cold), []
    for pooling in POOLINGS:
        warm = stepper.submit(embedded(pooling))
        stepper.run()
        assert await told(warm) == await alone(pooling)
        cached.append(warm.sequence.num_cached)
    assert expected == await alone(Pooling.LAST)
    assert cached[0] >= len(PROMPT) - 32
    assert cached[1:] == [0, 0]


async def test_cls_pooling_computes_one_row():
    stepper = Stepper("llama")
    generation = stepper.submit(embedded(Pooling.CLS))
    stepper.run()
    await told(generation)
    assert stepper.runner.num_tokens == 1


async def test_embeddings_beside_predicted_generations_keep_their_bits():
    expected = [await alone(each) for each in POOLINGS]
    wanted = [
        request(PROMPT[:9], seed=seed, request_id=f"{seed}", temperature=0.9, num_predictions=3) for seed in range(3)
    ]
    texts = [await Stepper("llama").complete(one) for one in wanted]
    scripts = {f"{seed}": ("mixed", transcript.token_ids) for seed, transcript in enumerate(texts)}
    predictor = ScriptedPredictor(scripts.get, vocab_size=VOCAB_SIZE)
    stepper = Stepper("llama", predictors=[predictor], prefill_chunk=5)
    crowd = [stepper.submit(one) for one in wanted]
    for _ in range(3):
        stepper.step()
    generations = [stepper.submit(embedded(each)) for each in POOLINGS]
    stepper.run()
    assert [await told(generation) for generation in generations] == expected
    assert [await generation.transcript() for generation in crowd] == texts
    stats = [generation.sequence.speculation for generation in crowd]
    assert all(0 < sum(one.accepted) < sum(one.offered) for one in stats)


async def test_preempted_embeddings_count_each_state_once():
    expected = [await alone(each) for each in POOLINGS]
    stepper = Stepper("llama", num_blocks=9, prefill_chunk=1)
    crowd = [stepper.submit(request(PROMPT[:9], seed=seed, max_tokens=80, cache=COLD)) for seed in range(3)]
    generations = [stepper.submit(embedded(each, cache=COLD)) for each in POOLINGS]
    stepper.run()
    assert [await told(generation) for generation in generations] == expected
    assert any(generation.sequence.num_preemptions for generation in generations)
    for generation in crowd:
        await generation.read()
