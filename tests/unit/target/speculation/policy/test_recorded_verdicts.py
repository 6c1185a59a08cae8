"""The policy on the verdicts of a real pair: Qwen2.5-Coder 1.5B (int8) and 0.5B, eight predictions in each pass."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.simulation import Simulation, World

TOKENS = 64
SHARED_CORES = World(
    cost=lambda num_rows: 0.045 * (1 + 0.02 * (num_rows - 1)),
    delay=0.003,
    step=lambda _: 0.018,
    reading=0.0016,
    prompt=50,
    noise=0.1,
    num_tokens=TOKENS,
)
SHARED_GPU = replace(
    SHARED_CORES,
    cost=lambda num_rows: 0.0045 * (1 + 0.007 * (num_rows - 1)),
    delay=0.0012,
    step=lambda _: 0.0009,
    reading=0.00002,
)


@cache
def recorded() -> list[dict[str, Any]]:
    texts: list[dict[str, Any]] = json.loads(Path(__file__).with_name("recorded_verdicts.json").read_text())
    return texts


def runs_of(text: dict[str, Any]) -> list[int]:
    """How many predictions are right from each token on: those of a pass, and of the next if all of them were."""
    parts: list[list[int]] = []
    following = 0
    for num_predicted, num_accepted in reversed(text["passes"]):
        is_right = num_predicted > 0 and num_accepted == num_predicted
        following = num_accepted + (1 + following if is_right else 0)
        parts.append([following - index for index in range(num_accepted + 1)])
    return [run for part in reversed(parts) for run in part]


def best_of_fixed(world: World, runs: list[int]) -> float:
    """The speedup of the best fixed number of predictions."""

    def seconds(count: int) -> float:
        place, total = 0, 0.0
        while place < TOKENS:
            total += world.cost(1 + count) + bool(count) * (world.delay + count * world.step(1))
            place += 1 + min(count, runs[place])
        return total

    return seconds(0) / min(seconds(count) for count in range(9))


@pytest.mark.parametrize("world", [SHARED_CORES, SHARED_GPU], ids=["cores", "gpu"])
@pytest.mark.parametrize("kind", ["chat", "code", "json"])
async def test_a_fresh_servers_first_answer_is_near_the_best_length(world: World, kind: str) -> None:
    rehearsal, *_ = recorded()
    ratios, best = [], []
    for text in recorded():
        if text["kind"] == kind:
            runs = runs_of(text)
            fresh = replace(world, runs=runs, rehearsed_runs=runs_of(rehearsal))
            ratios += [Simulation(fresh, seed).rehearse().run(1).ratio for seed in range(3)]
            best += [best_of_fixed(world, runs)] * 3
    assert len(ratios) == 18
    assert sum(ratios) > 0.88 * sum(best)
    assert sum(ratios) > 1.1 * len(ratios)
