"""SMG follows the targets' KV events: one that was just started knows which target has computed a prompt."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.deploy.smg import Smg, binary
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.servers.server import RunningTarget, target_server, wait_until

pytestmark = pytest.mark.skipif(
    binary() is None, reason="SMG IS NOT INSTALLED (make deploy-test INSTALLS IT): NO ROUTER FOLLOWS THE EVENTS"
)
MODEL = DEMO_TARGET.name
COUNT = 16  # prompts
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]
BLOCK = 32  # tokens


@contextmanager
def router(folder: Path, name: str, targets: list[RunningTarget]) -> Iterator[Smg]:
    (folder / name).mkdir()
    running = Smg(folder / name, *(target.address for target in targets))
    try:
        running.wait_until_ready(MODEL)
        yield running
    finally:
        running.kill()


def ask(running: Smg, numbers: list[int]) -> list[int]:
    """The blocks of each prompt that were found in a target's cache."""
    found = []
    for number in numbers:
        prompt = " ".join(random.Random(number).choices(WORDS, k=120))
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 2, "temperature": 0}
        usage = httpx2.post(f"{running.url}/v1/completions", json=body, timeout=60).json()["usage"]
        found.append((usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) // BLOCK)
    return found


@pytest.mark.parametrize("events", [True, False])
def test_a_new_router_finds_what_was_computed(events: bool, tmp_path: Path) -> None:
    with ExitStack() as stack:
        settings = {"kv_blocks": 512, "vllm_contract": True, "kv_events": events}
        targets = [stack.enter_context(target_server(DEMO_TARGET, **settings)) for _ in range(2)]
        with router(tmp_path, "first", targets) as first:
            assert sum(ask(first, [*range(COUNT)])) == 0
        with router(tmp_path, "second", targets) as second:
            if events:
                snapshots = 'disposition="snapshot"'
                wait_until(lambda: second.count("smg_kv_event_batches_total", snapshots) == len(targets))
            found = ask(second, random.Random(1).sample(range(COUNT), COUNT))
    hits = sum(blocks > 0 for blocks in found)
    print(f"{hits} of {COUNT} prompts came to where they lie, {'with' if events else 'without'} events")
    assert hits == COUNT if events else hits < COUNT
