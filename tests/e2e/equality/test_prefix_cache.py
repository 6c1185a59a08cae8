"""A prompt found in the cache continues as a computed one, to the bit, in all circumstances.

Before each pass every block that holds nothing to be found is full of NaN.
"""

from dataclasses import replace
from typing import Any

import pytest

from services.engine.decoder.native import BLOCK_SIZE
from services.engine.request import CachePolicy, Request
from services.engine.text.healing import plan_healing
from tests.e2e.harness import stepper as stepping
from tests.e2e.harness.stepper import Generation, Stepper
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import random_prompt
from tests.e2e.matrix.transcript import Transcript

MODELS = ("llama", "qwen3", "gemma2", "lfm2", "qwen3_5")  # windows, short convolutions, states
PREFIX = random_prompt("prefix", 3 * BLOCK_SIZE)
FEW_BLOCKS = 12
COLD = CachePolicy(prefix=False)
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.9, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.2, "frequency_penalty": 0.7},
}


def request(prompt: list[int], **fields: Any) -> Request:
    """A request with everything recorded but the prompt, which would have it computed."""
    return stepping.request(prompt, **{"prompt_logprobs": False, **fields})


def asking(number: int, **fields: Any) -> Request:
    """One of several requests that begin alike and then differ."""
    prompt = [*PREFIX, *random_prompt(f"question {number}", 7 * number + 1)]
    return request(prompt, **{"temperature": 0.9, "seed": number, "request_id": f"test-{number}", **fields})


async def cold(model: str, wanted: Request) -> Transcript:
    """The answer of an engine that has computed nothing before."""
    return await Stepper(model).complete(replace(wanted, cache=COLD))


async def finish(stepper: Stepper, wanted: Request) -> Generation:
    """Run a request, and everything else there is, to the end."""
    generation = stepper.submit(wanted)
    stepper.run()
    await generation.read()
    return generation


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
async def test_warm_and_cold_caches_give_the_same_bytes(model: str, setting: str):
    wanted = asking(1, num_predictions=6, **SETTINGS[setting])
    expected = await cold(model, wanted)
    for kind in SCRIPTED:
        predictor = ScriptedPredictor(lambda name, kind=kind: (kind, expected.token_ids), vocab_size=512)
        stepper = Stepper(model, predictors=[predictor], prefill_chunk=48)
        await stepper.complete(asking(2))
        generation = await finish(stepper, wanted)
        assert Transcript.of_events(generation.events) == expected
        assert generation.end.cached_tokens == len(PREFIX)
        offered, accepted = sum(generation.end.speculation.offered), sum(generation.end.speculation.accepted)
        assert (accepted > 0, offered > accepted) == (kind != "wrong", kind != "right")


@pytest.mark.parametrize("model", ["llama", "qwen3_5"])
async def test_blocks_filled_beside_rejected_predictions_are_reused(model: str):
    """A second turn: the prompt of the first and its answer are found, up to the last full block."""
    first = asking(1, num_predictions=6, max_tokens=70)
    answer = await cold(model, first)
    mixed = ScriptedPredictor(lambda name: ("mixed", answer.token_ids) if name == "test-1" else None, vocab_size=512)
    stepper = Stepper(model, predictors=[mixed])
    generation = await finish(stepper, first)
    assert sum(generation.end.speculation.offered) > sum(generation.end.speculation.accepted) > 0
    second = replace(asking(3), prompt=(*first.prompt, *answer.token_ids, *random_prompt("more", 5)))
    expected = await cold(model, second)
    generation = await finish(stepper, second)
    assert Transcript.of_events(generation.events) == expected
    num_computed = len(first.prompt) + len(answer.token_ids) - 1
    assert generation.end.cached_tokens == num_computed // BLOCK_SIZE * BLOCK_SIZE


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 65])
async def test_the_last_token_of_any_prompt_is_computed(length: int):
    wanted = request(PREFIX[:length], temperature=0.9, max_tokens=8)
    expected = await cold("gemma2", wanted)
    stepper = Stepper("gemma2")
    for num_found in (0, (length - 1) // BLOCK_SIZE * BLOCK_SIZE):
        generation = await finish(stepper, wanted)
        assert Transcript.of_events(generation.events) == expected
        assert generation.end.cached_tokens == num_found


@pytest.mark.parametrize("model", MODELS)
async def test_a_crowd_on_few_blocks_shares_and_finds_its_prefix(model: str):
    wanted = [asking(number, max_tokens=60, num_predictions=5) for number in range(8)]
    alone = [await cold(model, one) for one in wanted]
    scripts = {one.request_id: ("mixed", answer.token_ids) for one, answer in zip(wanted, alone, strict=True)}
    predictor = ScriptedPredictor(scripts.get, vocab_size=512)
    stepper = Stepper(model, num_blocks=FEW_BLOCKS, prefill_chunk=48, predictors=[predictor])
    generations = [stepper.submit(one) for one in wanted]
    stepper.run()
    assert [await generation.transcript() for generation in generations] == alone
    ends = [generation.end for generation in generations]
    assert sum(end.preemptions for end in ends) > 0
    assert any(end.cached_tokens for end in ends)
    assert sum(sum(end.speculation.accepted) for end in ends) > 0
    assert stepper.blocks.num_free == FEW_BLOCKS


async def test_sequences_that_share_leave_room_for_more_of_them():
    most = []
    for policy in (CachePolicy(), COLD):
        stepper = Stepper("llama", num_blocks=FEW_BLOCKS)
        generations = [stepper.submit(asking(0, max_tokens=40, cache=policy))]
        stepper.step()
        generations += [stepper.submit(asking(0, seed=seed, max_tokens=40, cache=policy)) for seed in range(1, 6)]
        stepper.run()
        most.append(stepper.most_sequences)
    assert most == [6, 3]


async def test_a_continuation_finds_prompt_and_received_tokens_cached():
    wanted = asking(1, max_tokens=50)
    whole = await cold("qwen3", wanted)
    stepper = Stepper("qwen3")
    await stepper.complete(wanted)
    for cut in range(0, len(whole.token_ids), 7):
        generation = await finish(stepper, replace(wanted, received=whole.token_ids[:cut]))
        rest = Transcript.of_events(generation.events)
        assert (rest.token_ids, rest.records) == (whole.token_ids[cut:], whole.records[cut:])
        assert generation.end.cached_tokens == (len(wanted.prompt) + cut - 1) // BLOCK_SIZE * BLOCK_SIZE


async def test_a_healed_prompt_is_found_except_for_its_redrawn_end():
    stepper = Stepper("llama")
    wanted = request([*PREFIX[:-1], *stepper.tokenizer.encode(" ", add_special_tokens=False)], temperature=1.0)
    healing = plan_healing(wanted.prompt, stepper.tokenizer, vocab_size=stepper.vocab_size)
    assert healing is not None
    wanted = replace(wanted, healing=healing)
    expected = await cold("llama", wanted)
    for num_found in (0, 2 * BLOCK_SIZE):
        generation = await finish(stepper, wanted)
        assert Transcript.of_events(generation.events) == expected
        assert generation.end.cached_tokens == num_found


@pytest.mark.parametrize(
    ("policy", "other"),
    [(CachePolicy(), COLD), (COLD, CachePolicy()), (CachePolicy(salt="a"), CachePolicy(salt="b"))],
)
async def test_another_salt_or_policy_finds_nothing(policy: CachePolicy, other: CachePolicy):
    stepper = Stepper("llama")
    await stepper.complete(asking(1, cache=policy))
    generation = await finish(stepper, asking(1, cache=other))
    assert generation.end.cached_tokens == 0
    generation = await finish(stepper, asking(1, cache=policy))
    assert (generation.end.cached_tokens > 0) == policy.prefix


async def test_states_are_kept_after_a_prompt_and_after_its_answer():
    """Whatever comes after the prompt, and after the whole turn, goes on from there."""
    stepper = Stepper("qwen3_5")
    wanted = asking(3, max_tokens=45)
    answer = await stepper.complete(wanted)
    turn = [*wanted.prompt, *answer.token_ids]
    for known, num_found in ((wanted.prompt, len(wanted.prompt) // BLOCK_SIZE), (turn, (len(turn) - 1) // BLOCK_SIZE)):
        second = request([*known, *random_prompt("more", 40)], temperature=0.9, seed=5)
        expected = await cold("qwen3_5", second)
        generation = await finish(stepper, second)
        assert Transcript.of_events(generation.events) == expected
        assert generation.end.cached_tokens == num_found * BLOCK_SIZE


async def test_evicted_states_cost_time_and_no_byte():
    stepper = Stepper("qwen3_5", num_checkpoints=1)
    wanted = [asking(number, max_tokens=40) for number in (1, 2, 3, 1, 2, 3)]
    expected = [await cold("qwen3_5", one) for one in wanted[:3]] * 2
    generations = [await finish(stepper, one) for one in wanted]
    assert [Transcript.of_events(generation.events) for generation in generations] == expected
    assert stepper.blocks.num_stateless > 0


async def test_a_text_that_lost_its_tokens_goes_on_from_a_kept_state():
    """A banned string takes back tokens that the state has seen."""
    plain = await cold("qwen3_5", asking(4, max_tokens=60))
    banned = plain.text[len(plain.text) // 2 :][:3]
    wanted = asking(4, max_tokens=60, banned_strings=(banned,))
    expected = await cold("qwen3_5", wanted)
    assert banned not in expected.text
    stepper = Stepper("qwen3_5")
    assert await stepper.complete(wanted) == expected
    kept, anew = stepper.runner.num_tokens, Stepper("qwen3_5")
    assert await anew.complete(replace(wanted, cache=COLD)) == expected
    assert kept < anew.runner.num_tokens
