"""LengthController with a distant draft that runs ahead: the delay costs little of the gain."""

from dataclasses import replace
from functools import cache

import pytest

from services.target.speculation.policy.speculation_plan import Decision
from tests.harness.further import further
from tests.unit.ahead_draft import AheadDraft
from tests.unit.simulation import Simulation, World

APART = World(  # a 1.5B target and a 0.5B draft, int4, a core for each
    cost=lambda num_rows: 0.050 * (1 + 0.03 * (num_rows - 1)), step=lambda _: 0.017, chances=(0.75,)
)
NEAR = 0.0002  # seconds
USELESS = replace(APART, delay=0.02, chances=(0.02,), num_tokens=400)


@cache
def ratio(round_trip: float) -> float:
    """Called within a running event loop."""
    world = replace(APART, delay=round_trip)
    ratios = [Simulation(world, seed, AheadDraft).rehearse().run(4).ratio for seed in range(4)]
    return sum(ratios) / len(ratios)


async def test_a_near_draft_gains_half_as_much_again():
    assert ratio(NEAR) > 1.5


@pytest.mark.parametrize(
    ("round_trip", "share"), [(0.001, 0.95), further(0.005, 0.85), (0.02, 0.6), further(0.05, 0.2)]
)
async def test_a_longer_way_leaves_most_of_the_gain(round_trip, share):
    assert ratio(round_trip) - 1 >= share * (ratio(NEAR) - 1)


async def test_until_predictions_come_target_and_draft_both_run():
    for seed in range(2):
        simulation = Simulation(replace(APART, delay=0.02, num_tokens=512), seed, AheadDraft).rehearse().run(2)
        decisions = simulation.speculation.decisions()
        assert decisions[simulation.draft.source, Decision.LATER] > 80
        assert decisions[simulation.draft.source, Decision.NONE] <= 4, "for the last two tokens of each answer"


async def test_a_useless_draft_is_stopped():
    simulation = Simulation(USELESS, 1, AheadDraft).rehearse().run(2)
    assert simulation.counts[-100:].count(0) > 90
    stopped = simulation.speculation.decisions()[simulation.draft.source, Decision.NONE]
    assert stopped > 400, "of 800 tokens"
    assert min(life.ratio for life in simulation.lives) >= 0.99
