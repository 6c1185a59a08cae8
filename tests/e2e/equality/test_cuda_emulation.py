"""The whole service on the CUDA device's own code, its kernels run on the host."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from outrider import Client
from services.engine.config import EngineConfig
from tests.e2e.harness.models import folder
from tests.harness.servers.server import RunningTarget, target_server
from tests.native.harness.devices import DEVICES, EMULATION, make_device

SETTINGS = [
    {"temperature": 0.0},
    {"temperature": 1.0, "seed": 1},
    {"temperature": 0.8, "seed": 2, "top_p": 0.9, "repetition_penalty": 1.2, "top_k": 20, "logit_bias": {7: 2.0}},
    {"temperature": 1.0, "seed": 4, "regex": "([a-z]+, )*"},
    {"temperature": 1.0, "seed": 6, "mirostat_mode": 2, "mirostat_tau": 3.0},
    {"temperature": 1.0, "seed": 7, "adaptive_target": 0.4},
    {"temperature": 1.0, "seed": 8, "guidance_scale": 3.0, "negative_prompt": [17, 18, 19]},
]

NEW_TOKENS = 6
TOLD = {"rank": True, "entropy": True, "logits": True, "prompt_logprobs": True}


@pytest.fixture(scope="module")
def target() -> Iterator[RunningTarget]:
    if EMULATION not in DEVICES:
        pytest.skip("the module was built without -C cmake.define.OUTRIDER_TESTING=ON")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EngineConfig, "open_devices", lambda config: [make_device(EMULATION, config.threads)])
        with target_server(folder("gemma3"), prefill_chunk=16, max_rows=32, max_sequences=8) as running:
            yield running


def answer(client: Client, index: int) -> tuple[object, ...]:
    prompt = list(range(10 + index, 20 + 4 * index))  # some shorter than a chunk of a prefill, some longer
    options = {"max_tokens": NEW_TOKENS, "ignore_eos": True, "top_candidates": 3, **TOLD, **SETTINGS[index]}
    result = client.generate(prompt, **options)
    return result.token_ids, result.tokens, result.text, result.finish_reason, result.prompt_records


@pytest.mark.lengthy
def test_answers_do_not_depend_on_their_company(target: RunningTarget):
    with Client(target.address) as client:
        assert client.model_info().fingerprint_parts.device == EMULATION
        alone = [answer(client, index) for index in range(len(SETTINGS))]
        with ThreadPoolExecutor(len(SETTINGS)) as pool:
            together = list(pool.map(lambda index: answer(client, index), range(len(SETTINGS))))
    assert together == alone
    assert len({ids for ids, *_ in alone}) == len(SETTINGS)
    assert all(len(ids) == len(tokens) == NEW_TOKENS for ids, tokens, *_ in alone)
    target.assert_all_free()
