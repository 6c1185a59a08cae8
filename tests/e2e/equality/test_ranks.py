"""A model on several devices, emulated, serves the bytes of one, and its streams go on where one device serves it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import Client, Result
from services.engine.config import EngineConfig
from tests.e2e.harness.models import DEMO_HEAD, DEMO_TARGET
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
