"""A model on several devices, emulated, serves the bytes of one, and its streams go on where one device serves it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import Client, Result
from services.engine.cache.memory_pages import MemoryPages
from services.engine.config import EngineConfig
from tests.e2e.harness.models import DEMO_HEAD, DEMO_TARGET
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import random_prompt
from tests.harness.servers.server import RunningTarget, target_server
from tests.native.harness.devices import EMULATION, make_device, needs_emulation

PROMPT = "Once upon a time"
NEW_TOKENS = 8
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0, "seed": 3, "top_p": 0.9, "repetition_penalty": 1.1},
]


@contextmanager
def target(ranks: int, head: Path | None = None) -> Iterator[RunningTarget]:
    names = [f"cuda:{index}" for index in range(ranks)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.engine.config.cuda_devices", lambda: names)
        patch.setattr(
            EngineConfig, "open_devices", lambda config: [make_device(EMULATION, threads=1) for _ in config.devices]
        )
        limits = {"max_rows": 8, "prefill_chunk": 8, "max_sequences": 1, "kv_blocks": 4}
        with target_server(DEMO_TARGET, device=",".join(names), head=head, **limits) as running:
            yield running


SAMPLERS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9, "top_k": 40, "repetition_penalty": 1.2},
    {"temperature": 0.8, "top_p": 0.9, "presence_penalty": 0.4},
]
NUM_BLOCKS = 6  # fewer than the streams together fill


@needs_emulation
@pytest.mark.parametrize("model", [pytest.param("llama", marks=pytest.mark.exhaustive), "qwen3_5"])
async def test_streams_of_two_devices_share_too_few_blocks(model: str):
    """They are preempted, drafted for, and find their blocks and states in the offload again."""
    prompts = [random_prompt(f"prompt {index}", 40 + index) for index in range(len(SAMPLERS))]
    fields = [{**sampler, "max_tokens": 34, "num_predictions": 3} for sampler in SAMPLERS]
    wanted = [
        request(prompt, request_id=f"test-{index}", seed=index, **fields[index]) for index, prompt in enumerate(prompts)
    ]
    alone = [await Stepper(model, devices=[make_device(EMULATION, 1)]).complete(each) for each in wanted]
    scripts = {f"test-{index}": ("mixed", transcript.token_ids) for index, transcript in enumerate(alone)}
    stores: list[MemoryPages] = []

    def make_store(page_bytes: int) -> MemoryPages:
        stores.append(MemoryPages(num_slots=40, page_bytes=page_bytes))
        return stores[-1]

    stepper = Stepper(
        model,
        devices=[make_device(EMULATION, 1) for _ in range(2)],
        num_blocks=NUM_BLOCKS,
        prefill_chunk=16,
        predictors=[ScriptedPredictor(scripts.get, vocab_size=512)],
        make_store=make_store,
    )
    generations = [stepper.submit(each) for each in wanted]
    stepper.run()
    assert [await generation.transcript() for generation in generations] == alone
    assert stepper.scheduler.num_preemptions > 0
    assert stores[0].num_pages > 0
    accepted = [sum(generation.end.speculation.accepted) for generation in generations]
    assert 0 < sum(accepted) < sum(sum(generation.end.speculation.offered) for generation in generations)
    for store in stores:
        store.close()


def options(setting: dict[str, Any]) -> dict[str, Any]:
    return {"max_tokens": NEW_TOKENS, "ignore_eos": True, "logprobs": True, "top_candidates": 3, **setting}


def bytes_of(result: Result) -> tuple[object, ...]:
    """All but what tells how the tokens were computed."""
    tokens = [replace(token, predicted=False, prediction_source=None) for token in result.tokens]
    return result.text, tokens, result.finish_reason


@needs_emulation
@pytest.mark.lengthy
def test_a_stream_of_two_devices_goes_on_at_one():
    with target(1) as one, ExitStack() as first:
        several = first.enter_context(target(2, DEMO_HEAD))
        with Client(one.address) as client:
            expected = [client.generate(PROMPT, speculation="never", **options(setting)) for setting in SETTINGS]
        with Client(several.address) as client:
            drafted = [client.generate(PROMPT, speculation="always", **options(setting)) for setting in SETTINGS]
        for answer, wanted in zip(drafted, expected, strict=True):
            assert bytes_of(answer) == bytes_of(wanted)
            assert 0 < answer.speculation.accepted < answer.speculation.predicted
        with Client(several.address, one.address) as client:
            with client.stream(PROMPT, speculation="always", **options(SETTINGS[1])) as stream:
                chunks = iter(stream)
                next(chunks)
                with ThreadPoolExecutor(1) as pool, several.held():  # so that it gives no more
                    closing = pool.submit(first.close)
                    assert sum(1 for _ in chunks) > 0
                closing.result()
            rest = stream.result
        assert rest.resumed == 1
        assert bytes_of(rest) == bytes_of(expected[1])
