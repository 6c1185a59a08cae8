"""LengthController: on a simulated target and draft it comes near the best lengths, and no stream loses much."""

from dataclasses import replace
from itertools import pairwise

import pytest

from services.target.speculation.policy.goodput_search import GoodputSearch
from services.target.speculation.policy.speculation_plan import AutoSequence
from tests.harness.further import all_with
from tests.unit.sequences import make_request, make_sequence
from tests.unit.simulation import Simulation, World

MOST = 15


def rising(seconds: float, slope: float, knee: float):
    """What passes take: so long with one row, and more with each; beyond sixteen rows, more still."""
    return lambda num_rows: seconds * (1 + slope * (num_rows - 1) + knee * max(0, num_rows - 16))


CODER = World(  # a 1.5B target and a 0.5B draft, int8, two cores
    cost=rising(0.045, 0.012, 0.02), step=lambda num_rows: 0.013 * (1 + 0.02 * (num_rows - 1)), reading=0.0008
)
SYNTHETIC = World(  # a 1B target and its first two layers
    cost=rising(0.033, 0.01, 0.01), step=lambda num_rows: 0.004 * (1 + 0.03 * (num_rows - 1)), reading=0.0003
)
PAIRS = {"coder": CODER, "synthetic": SYNTHETIC}
BAD = {"useless": {"chances": (0.02,)}, "slow": {"delay": 0.5}, "silent": {"is_silent": True}}
STREAMS = (1, 2, 4, 8, 16, 32)


def best_ratio(world: World) -> float:
    """Of the best fixed number of predictions, where nothing has to be read."""
    (chance,) = world.chances
    plain, ratios = world.cost(world.num_streams), [1.0]
    for count in range(1, MOST):
        tokens = sum(chance**place for place in range(count + 1))
        wait = world.delay + count * world.step(world.num_streams)
        ratios.append(tokens * plain / (world.cost(world.num_streams * (1 + count)) + wait))
    return max(ratios)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
async def test_one_stream_gains_most_of_what_can_be_gained(pair):
    ratios = [Simulation(pair, seed).rehearse().run(4).ratio for seed in range(4)]
    assert sum(ratios) / len(ratios) > 1 + 0.6 * (best_ratio(pair) - 1)


async def test_after_three_rehearsals_no_good_draft_is_left_alone_for_bad_luck():
    world = replace(CODER, num_streams=2, num_tokens=96)
    ratios = [Simulation(world, seed).rehearse().rehearse().rehearse().run(2).ratio for seed in range(6)]
    assert min(ratios) > 1.15


async def test_how_slowly_a_draft_reads_is_measured_in_a_rehearsal():
    world = replace(CODER, reading=0.004)  # the prompt takes twice as long as predictions are waited for
    simulation = Simulation(world).rehearse()
    assert simulation.draft._prefill_rate.seconds(1000) == pytest.approx(4.0, rel=0.2)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("num_streams", all_with(STREAMS, 1, 8))
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_draft_of_no_use_costs_no_window_of_a_stream_more_than_a_little(pair, num_streams, bad):
    simulation = Simulation(replace(pair, num_streams=num_streams, **bad)).rehearse().run(2)
    assert min(life.worst_window() for life in simulation.lives) >= 0.97
    assert min(life.ratio for life in simulation.lives) >= 0.99


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("num_streams", all_with(STREAMS, 1, 8))
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_nor_does_one_that_comes_while_somebody_waits(pair, num_streams, bad):
    simulation = Simulation(replace(pair, num_streams=num_streams, **bad)).run(3)
    least = 0.9 if num_streams == 1 else 0.95  # one alone pays for a trial; beside a draft at work, passes take longer
    assert min(life.worst_window() for life in simulation.lives) >= least
    assert simulation.ratio >= 0.985, "of some twelve seconds, the first of which are dearest"


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
async def test_a_good_one_that_comes_while_somebody_always_waits_is_found_out(pair):
    ratios = [Simulation(replace(pair, prompt=40), seed).run(8).ratio for seed in range(4)]
    assert sum(ratios) / len(ratios) > 1.1


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("num_streams", all_with(STREAMS, 1, 8))
async def test_a_good_draft_does_not_lose_either_where_many_share_the_cores(pair, num_streams):
    ratios = [Simulation(replace(pair, num_streams=num_streams), seed).rehearse().run(4).ratio for seed in range(3)]
    assert sum(ratios) / len(ratios) >= 0.99


def slowed_by_many(world: World, growth: float) -> World:
    """The same, but a step of the draft takes longer by this share for each further stream."""
    alone = world.step(1)
    return replace(world, step=lambda count: alone * (1 + growth * (count - 1)))


@pytest.mark.parametrize("growth", [0.03, 0.1, 0.2, 0.35])
async def test_four_streams_gain_however_much_longer_the_draft_takes_for_them(growth):
    world = replace(slowed_by_many(SYNTHETIC, growth), num_streams=4, num_tokens=96)
    ratios = [Simulation(world, seed).rehearse().run(3).ratio for seed in range(3)]
    assert min(ratios) > 1.1


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("num_streams", all_with([2, 8, 16], 8))
@pytest.mark.parametrize("growth", all_with([0.1, 0.2], 0.2))
async def test_nor_where_it_takes_much_longer_for_many(pair, num_streams, growth):
    world = replace(slowed_by_many(pair, growth), num_streams=num_streams)
    ratios = [Simulation(world, seed).rehearse().run(4).ratio for seed in range(3)]
    assert sum(ratios) / len(ratios) >= 0.99


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
async def test_one_that_was_good_in_the_rehearsal_alone_is_found_out(pair):
    simulation = Simulation(replace(pair, chances=(0.02,), rehearsed=0.75)).rehearse().run(6)
    assert sum(life.tokens[0] > 0 and life.ratio < 1 for life in simulation.lives), "it was believed at first"
    assert simulation.ratio >= 0.985
    assert min(life.ratio for life in simulation.lives[1:]) >= 0.965


async def test_a_draft_that_turns_bad_is_found_out_and_one_that_turns_good_too():
    simulation = Simulation(SYNTHETIC).rehearse().run(2)
    simulation.world.chances = (0.0,)
    simulation.run(4)
    assert simulation.counts[-100:].count(0) > 90
    simulation.world.chances = (0.9,)
    simulation.run(100)
    assert simulation.counts[-60:].count(0) < 30


async def test_nobody_gets_more_than_its_most_nor_all_more_than_the_rows():
    simulation = Simulation(replace(SYNTHETIC, num_streams=4, chances=(0.95,), reading=0.0)).rehearse().run(2)
    controller = simulation.speculation._sources[0]._controller
    sequences = [AutoSequence(make_sequence(make_request()), most) for most in (0, 1, 2, MOST)]
    for each in sequences:
        simulation.draft.open(each.sequence, 0)
        simulation.speculation._budget.join(each.sequence)
    lengths = controller.plan(sequences, num_rows=4, spare_rows=5).lengths
    assert sum(lengths) <= 5
    assert all(length <= each.max_length for length, each in zip(lengths, sequences, strict=True))


async def test_a_stream_that_has_just_come_is_thought_about_at_once():
    simulation = Simulation(SYNTHETIC).rehearse()
    for _ in range(4):  # the last step of each leaves no room for a prediction
        simulation.counts.clear()
        simulation.run(1)
        assert simulation.counts[0]


async def test_while_nothing_pays_it_is_searched_ever_more_rarely(monkeypatch):
    simulation = Simulation(replace(SYNTHETIC, chances=(0.02,), num_tokens=2000)).rehearse()
    searches: list[int] = []
    search = GoodputSearch.best
    monkeypatch.setattr(
        GoodputSearch,
        "best",
        lambda *args, **limits: searches.append(len(simulation.counts)) or search(*args, **limits),
    )
    simulation.run(1)
    assert 20 < len(searches) < 60, "one in eight would be 250"
    assert max(later - before for before, later in pairwise(searches)) <= 64
