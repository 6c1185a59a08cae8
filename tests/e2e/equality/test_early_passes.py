"""Passes that are launched before the tokens that they go on from are committed: whatever ends or pauses a sequence
meanwhile, no byte differs.
"""

from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import pytest

from services.engine.request import CachePolicy, Loop, Request, SpeculationMode, SpeculationPolicy
from services.target.speculation.predictors.lookup_predictor import with_lookup
from tests.e2e.harness import stepper as stepper_module
from tests.e2e.harness.stepper import Generation, Stepper
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.native.harness.devices import EMULATION, make_device, needs_emulation

RANDOM = {"temperature": 1.0, "max_tokens": 40}
PROMPT = prompt_of("llama", 3)


def request(prompt: Seq[int], **fields: Any) -> Request:
    """One without its logits, which must be read before the next pass is launched."""
    whole = stepper_module.request(prompt, **fields)
    return replace(whole, output=replace(whole.output, logits=False))


def early(model: str = "llama", **settings: Any) -> Stepper:
    return Stepper(model, launches_early=True, **settings)


async def together(stepper: Stepper, requests: Seq[Request]) -> list[Transcript]:
    generations = [stepper.submit(each) for each in requests]
    stepper.run()
    assert stepper.blocks.num_free == stepper.blocks.num_blocks
    return [await each.transcript() for each in generations]


async def plainly(requests: Seq[Request]) -> list[Transcript]:
    """The answers one by one, each pass after the commit of the last."""
    return [await Stepper("llama").complete(each) for each in requests]


def limits_at(ending: str, position: int, whole: Transcript, stepper: Stepper) -> dict[str, Any]:
    """What ends, or takes back, the answer near a position."""
    token_id = whole.token_ids[position]
    text = stepper.tokenizer.token_text(token_id) or "?"
    return {
        "stop token": {"token_ids": frozenset({token_id})},
        "stop string": {"strings": (text,)},
        "max_tokens": {"max_tokens": position + 1},
        "banned string": {"banned_strings": (text,)},
        "loop": {"loop": Loop(window=1, repetitions=1)},
    }[ending]


@pytest.mark.parametrize("ending", ["stop token", "stop string", "max_tokens", "banned string", "loop"])
async def test_an_end_is_found_one_pass_later_at_every_position(ending: str) -> None:
    plain, stepper = Stepper("llama"), early()
    whole = await plain.complete(request(PROMPT, seed=3, **RANDOM))
    company = [request(prompt_of("llama", index), seed=index, **RANDOM) for index in (5, 6)]
    expected = [await plain.complete(each) for each in company]
    for position in range(0, 40, 1 if ending in ("stop token", "max_tokens") else 3):
        wanted = request(PROMPT, seed=3, **(RANDOM | limits_at(ending, position, whole, plain)))
        assert await together(stepper, [wanted, *company]) == [await plain.complete(wanted), *expected]
    assert stepper.runner.num_early > 200


@pytest.mark.parametrize("settings", [{"weights": "int8", "kv": "int8"}, {"kv": "f32"}], ids=str)
@pytest.mark.parametrize("model", ["gemma3", "qwen3_moe"])
async def test_settings_that_follow_the_history_keep_it(model: str, settings: dict[str, Any]) -> None:
    wanted = [
        request(prompt_of(model, index), seed=index, max_tokens=20 + index, **options)
        for index, options in enumerate(
            [
                {"temperature": 1.0, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
                {"temperature": 1.0, "mirostat_mode": 2, "mirostat_tau": 3.0},
                {"temperature": 0.0, "min_tokens": 15},
                {"temperature": 1.2, "top_p": 0.9, "dry_multiplier": 0.8},
            ]
        )
    ]
    stepper = early(model, **settings)
    plain = Stepper(model, **settings)
    assert await together(stepper, wanted) == [await plain.complete(each) for each in wanted]
    assert stepper.runner.num_early > 15


@pytest.mark.parametrize("num_predictions", [0, 3])
async def test_where_predictions_are_wanted_no_pass_is_launched_early(num_predictions: int) -> None:
    never = SpeculationPolicy(mode=SpeculationMode.NEVER)
    plain = [replace(request(prompt_of("llama", seed), seed=seed, **RANDOM), speculation=never) for seed in range(3)]
    stepper = early(predictors=with_lookup(long_match=8))
    assert await together(stepper, plain) == await plainly(plain)
    assert (num_early := stepper.runner.num_early) > 20
    wanted = [*plain, request(PROMPT, seed=9, num_predictions=num_predictions, **(RANDOM | {"max_tokens": 60}))]
    assert await together(stepper, wanted) == await plainly(wanted)
    assert stepper.runner.num_early == num_early


async def test_readers_that_pause_their_sequences_get_all() -> None:
    wanted = [request(prompt_of("llama", index), seed=index, **RANDOM) for index in range(3)]
    stepper = early(stream_capacity=3)
    generations = [stepper.submit(each) for each in wanted]
    await read_slowly(stepper, generations)
    transcripts = [Transcript.of_events(each.events) for each in generations]
    assert transcripts == await plainly(wanted)
    assert stepper.runner.num_early > 0


async def read_slowly(stepper: Stepper, generations: list[Generation]) -> None:
    """Read each stream to its end, one event now and then."""
    readers = {index: aiter(each.stream) for index, each in enumerate(generations)}
    while readers:
        for _ in range(3):
            stepper.step()
        for index, reader in [*readers.items()]:
            try:
                generations[index].events.append(await anext(reader))
            except StopAsyncIteration:
                del readers[index]


async def test_who_comes_goes_and_is_preempted_meanwhile() -> None:
    wanted = [request(prompt_of("llama", index), seed=index, **RANDOM) for index in range(8)]
    stepper = early(num_blocks=10, prefill_chunk=8)
    generations: list[Generation] = []
    for each in wanted:
        generations.append(stepper.submit(each))
        dropped = stepper.submit(request(PROMPT, seed=90, **RANDOM))
        for _ in range(9):
            stepper.step()
        stepper.drop(dropped)
    stepper.run()
    assert [await each.transcript() for each in generations] == [
        await Stepper("llama").complete(each) for each in wanted
    ]
    assert stepper.scheduler.num_preemptions > 0
    assert stepper.runner.num_early > 20


async def test_logits_are_read_before_they_are_overwritten() -> None:
    wanted = [stepper_module.request(prompt_of("llama", index), seed=index, **RANDOM) for index in range(3)]
    stepper = early()
    assert await together(stepper, wanted) == await plainly(wanted)
    assert stepper.runner.num_early > 20


async def test_a_reader_that_never_reads_slows_down_no_other() -> None:
    stepper = early(stream_capacity=60)  # for the prompt's 17 tokens, too
    idle = stepper.submit(request(PROMPT, seed=1, **(RANDOM | {"max_tokens": 90})))
    stepper.run()
    generation = stepper.submit(wanted := request(PROMPT, seed=2, **RANDOM))
    num_early = stepper.runner.num_early
    stepper.run()
    assert idle.sequence.is_paused
    assert not idle.sequence.is_finished
    assert [await generation.transcript()] == await plainly([wanted])
    assert stepper.runner.num_early > num_early + 30


async def test_what_an_ended_sequence_left_in_the_cache_is_right() -> None:
    stepper = early()
    first = await stepper.complete(
        request(PROMPT, seed=1, cache=CachePolicy(salt="x"), **(RANDOM | {"max_tokens": 70}))
    )
    longer = request([*PROMPT, *first.token_ids], seed=2, cache=CachePolicy(salt="x"), prompt_logprobs=False, **RANDOM)
    generation = stepper.submit(longer)
    stepper.run()
    assert [await generation.transcript()] == await plainly([longer])
    assert generation.end.cached_tokens > len(PROMPT)


@needs_emulation
async def test_passes_of_a_gpu_are_launched_early() -> None:
    def stepper(**settings: Any) -> Stepper:
        return Stepper("llama", devices=[make_device(EMULATION, 1)], **settings)

    wanted = [request(prompt_of("llama", index)[:9], seed=index, temperature=1.0, max_tokens=8) for index in range(3)]
    launching = stepper(launches_early=True)
    assert await together(launching, wanted) == await together(stepper(), wanted)
    assert launching.runner.num_early >= 6
