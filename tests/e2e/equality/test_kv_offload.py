"""Blocks evicted from the KV cache come back to the bit, from memory and from a disk, in all circumstances.

Before each pass every block that holds nothing to be found is full of NaN.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.engine.cache.disk_pages import DiskPages
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_file import PageFile
from services.engine.cache.page_store import PageStore
from services.engine.config import CPU_KV_FORMATS
from services.engine.decoder.native import BLOCK_SIZE
from services.engine.request import CachePolicy, Request
from tests.e2e.harness import stepper as stepping
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Generation, Stepper
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import random_prompt
from tests.e2e.matrix.transcript import Transcript
from tests.harness.models.lora_folders import ALL_LINEAR, write_adapter

MODELS = ("llama", "qwen3", "gemma2", "lfm2", "qwen3_5")  # with sliding windows, short convolutions, states
PREFIX = random_prompt("prefix", 3 * BLOCK_SIZE)
FEW_BLOCKS = 12
NUM_PAGES = 40
COLD = CachePolicy(prefix=False)
MakeStore = Callable[[int], PageStore]


def disk_store(path: Path, owner: str = "some") -> Callable[[int], DiskPages]:
    def make(page_bytes: int) -> DiskPages:
        return DiskPages(PageFile(path, owner, num_slots=NUM_PAGES, page_bytes=page_bytes, block_size=BLOCK_SIZE))

    return make


@pytest.fixture(params=["memory", "disk"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeStore]:
    """What makes a store of its own each time, which is closed in the end."""
    made: list[PageStore] = []

    def make(page_bytes: int) -> PageStore:
        if request.param == "memory":
            made.append(MemoryPages(num_slots=NUM_PAGES, page_bytes=page_bytes))
        else:
            made.append(disk_store(tmp_path / str(len(made)))(page_bytes))
        return made[-1]

    yield make
    for store in made:
        assert not store.problem
        store.close()


def asking(number: int, **fields: Any) -> Request:
    """One of several requests that begin alike and then differ."""
    prompt = [*PREFIX, *random_prompt(f"question {number}", 7 * number + 1)]
    fields = {"temperature": 0.9, "seed": number, "request_id": f"test-{number}", "prompt_logprobs": False, **fields}
    return stepping.request(prompt, **fields)


async def fill(stepper: Stepper) -> None:
    """Ask for what takes every block there is."""
    for number in range(2):
        prompt = random_prompt(f"filling {number}", FEW_BLOCKS // 2 * BLOCK_SIZE)
        await finish(stepper, stepping.request(prompt, temperature=0.0, max_tokens=3, prompt_logprobs=False))


async def cold(wanted: Request, **engine: Any) -> Transcript:
    """The answer of an engine that has computed nothing before."""
    return await Stepper(**engine).complete(replace(wanted, cache=COLD))


async def finish(stepper: Stepper, wanted: Request) -> Generation:
    generation = stepper.submit(wanted)
    stepper.run()
    await generation.read()
    return generation


async def evicted_and_asked_again(stepper: Stepper, wanted: Request) -> Generation:
    """The second answer to a request, between which and the first one nothing of it stays in the cache."""
    await finish(stepper, wanted)
    await fill(stepper)
    return await finish(stepper, wanted)


@pytest.mark.parametrize("model", MODELS)
async def test_blocks_from_the_offload_continue_as_computed_ones(model: str, make_store: MakeStore) -> None:
    wanted = asking(1, num_predictions=6, top_p=0.9, frequency_penalty=0.7)
    expected = await cold(wanted, model=model)
    for kind in SCRIPTED:
        predictor = ScriptedPredictor(lambda name, kind=kind: (kind, expected.token_ids), vocab_size=512)
        stepper = Stepper(model, predictors=[predictor], prefill_chunk=48, num_blocks=FEW_BLOCKS, make_store=make_store)
        generation = await evicted_and_asked_again(stepper, wanted)
        assert Transcript.of_events(generation.events) == expected
        assert generation.end.cached_tokens == len(PREFIX)
        assert stepper.offload.num_found == 3
        offered, accepted = sum(generation.end.speculation.offered), sum(generation.end.speculation.accepted)
        assert (accepted > 0, offered > accepted) == (kind != "wrong", kind != "right")


@pytest.mark.parametrize("kv", CPU_KV_FORMATS)
async def test_keys_and_values_come_back_as_they_are_stored(kv: str, make_store: MakeStore) -> None:
    wanted = asking(1)
    expected = await cold(wanted, model="qwen3", kv=kv)
    stepper = Stepper("qwen3", kv=kv, num_blocks=FEW_BLOCKS, make_store=make_store)
    generation = await evicted_and_asked_again(stepper, wanted)
    assert Transcript.of_events(generation.events) == expected
    assert stepper.offload.num_found == 3


@pytest.mark.parametrize("model", MODELS)
async def test_a_preempted_crowd_finds_its_offloaded_blocks_again(model: str, make_store: MakeStore) -> None:
    wanted = [
        replace(asking(number, max_tokens=60, num_predictions=5), prompt=random_prompt(f"crowd {number}", 70))
        for number in range(8)
    ]
    alone = [await cold(one, model=model) for one in wanted]
    scripts = {one.request_id: ("mixed", answer.token_ids) for one, answer in zip(wanted, alone, strict=True)}
    predictor = ScriptedPredictor(scripts.get, vocab_size=512)
    stepper = Stepper(model, num_blocks=FEW_BLOCKS, prefill_chunk=48, predictors=[predictor], make_store=make_store)
    generations = [stepper.submit(one) for one in wanted]
    stepper.run()
    assert [await generation.transcript() for generation in generations] == alone
    speculation = [generation.end.speculation for generation in generations]
    assert sum(sum(each.offered) for each in speculation) > sum(sum(each.accepted) for each in speculation) > 0
    assert sum(generation.end.preemptions for generation in generations) > 0
    assert stepper.offload.num_found > 0
    assert stepper.blocks.num_free == FEW_BLOCKS


async def test_adapters_and_salts_have_offloaded_blocks_of_their_own(tmp_path: Path, make_store: MakeStore) -> None:
    loras = {
        name: write_adapter(tmp_path / name, folder("llama"), seed=rank, rank=rank, modules=ALL_LINEAR)
        for name, rank in (("first", 8), ("second", 13))
    }
    stepper = Stepper("llama", loras=loras, num_blocks=FEW_BLOCKS, make_store=make_store)
    kinds = [{"lora": "first"}, {"lora": "second"}, {}, {"cache": CachePolicy(salt="some")}]
    wanted = [asking(1, **kind) for kind in kinds]
    expected = [await cold(one, model="llama", loras=loras) for one in wanted]
    assert len({each.token_ids for each in expected}) == 3
    for num_found in (0, 3):
        for index, one in enumerate(wanted):
            before = stepper.offload.num_found
            generation = await finish(stepper, one)
            assert Transcript.of_events(generation.events) == expected[index]
            assert stepper.offload.num_found - before == num_found
            await fill(stepper)


async def test_another_process_finds_intact_pages_on_disk_only(tmp_path: Path) -> None:
    wanted = asking(1)
    expected = await cold(wanted, model="llama")
    first = Stepper("llama", num_blocks=FEW_BLOCKS, make_store=disk_store(tmp_path))
    await finish(first, wanted)
    await fill(first)
    first.offload.store.close()
    for num_found, num_dropped in ((3, 0), (0, 1)):
        stepper = Stepper("llama", num_blocks=FEW_BLOCKS, make_store=disk_store(tmp_path))
        generation = await finish(stepper, wanted)
        assert Transcript.of_events(generation.events) == expected
        assert (stepper.offload.num_found, stepper.offload.store.num_dropped) == (num_found, num_dropped)
        assert generation.end.cached_tokens == num_found * BLOCK_SIZE
        stepper.offload.store.close()
        flip_a_bit_of_each_page(next(tmp_path.iterdir()), stepper.offload.store.page_bytes)


def flip_a_bit_of_each_page(path: Path, page_bytes: int) -> None:
    data = bytearray(path.read_bytes())
    slot_bytes = -(-page_bytes // 4096) * 4096
    for end in range(len(data), len(data) - NUM_PAGES * slot_bytes, -slot_bytes):
        data[end - slot_bytes + page_bytes // 2] ^= 4
    path.write_bytes(data)
