"""LengthController: on a simulated target and draft it comes near the best lengths, and no stream loses much."""

from collections.abc import Sequence as Seq
from dataclasses import replace

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.length_controller import LengthController
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import StepSize
from tests.harness.further import all_with
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence
from tests.unit.simulation import Life, Simulation, World

MOST = 15
CONFIG = PolicyConfig()


def rising(seconds: float, slope: float, knee: float):
    """What passes take: so long with one row, and more with each; beyond sixteen rows, more still."""
    return lambda num_rows: seconds * (1 + slope * (num_rows - 1) + knee * max(0, num_rows - 16))


CODER = World(  # a 1.5B target and a 0.5B draft, int8, two cores
    cost=rising(0.045, 0.012, 0.02), step=lambda num_rows: 0.013 * (1 + 0.02 * (num_rows - 1)), reading=0.0008
)
SLOW = replace(CODER, cost=rising(0.115, 0.006, 0.01))  # the same target in bf16
SYNTHETIC = World(  # a 1B target and its first two layers
    cost=rising(0.033, 0.01, 0.01), step=lambda num_rows: 0.004 * (1 + 0.03 * (num_rows - 1)), reading=0.0003
)
GPU = World(  # an 8B target and its first four layers on one H200
    cost=rising(0.0039, 0.005, 0.01), step=lambda num_rows: 0.00073 * (1 + 0.013 * (num_rows - 1)), delay=0.0017,
    reading=0.00002,
)  # fmt: skip
PAIRS = {"coder": CODER, "slow": SLOW, "synthetic": SYNTHETIC, "gpu": GPU}
BAD = {"useless": {"chances": (0.02,)}, "slow": {"delay": 0.5}, "silent": {"is_silent": True}}
STREAMS = (1, 2, 4, 8, 16, 32)

on_pairs = pytest.mark.parametrize("pair", all_with(PAIRS.values(), CODER, GPU), ids=PAIRS)


def best_ratio(world: World) -> float:
    """Of the best fixed number of predictions, where nothing has to be read."""
    (chance,) = world.chances
    plain, ratios = world.cost(world.num_streams), [1.0]
    for count in range(1, MOST):
        tokens = sum(chance**place for place in range(count + 1))
        wait = world.delay + count * world.step(world.num_streams)
        ratios.append(tokens * plain / (world.cost(world.num_streams * (1 + count)) + wait))
    return max(ratios)


def mean_ratio(world: World, *, rehearsals: int = 1, waves: int = 1, seeds: int = 8) -> float:
    """Of the tokens of all streams to those without predictions."""
    simulations = [Simulation(world, seed) for seed in range(seeds)]
    for each in simulations:
        for _ in range(rehearsals):
            each.rehearse()
        each.run(waves)
    return sum(each.ratio for each in simulations) / seeds


def lost(life: Life, world: World) -> float:
    """The seconds of a stream that predictions cost it; negative if they saved some."""
    return (sum(life.plain) - sum(life.tokens)) * world.cost(world.num_streams)


def allowed(life: Life) -> float:
    """The seconds that it may lose by the promise, and what one step may go beyond it."""
    seconds = life.ends[-1] - life.ends[0]
    return max(CONFIG.loss_seconds, CONFIG.loss_share * seconds) * 1.2


@on_pairs
@pytest.mark.parametrize("chance", all_with([0.6, 0.75, 0.9], 0.6))
async def test_a_fresh_servers_first_answer_is_near_the_best_length(pair, chance):
    world = replace(pair, chances=(chance,), num_tokens=64, prompt=57)
    assert mean_ratio(world, seeds=32) > 1 + 0.8 * (best_ratio(world) - 1) - 0.06


@on_pairs
@pytest.mark.parametrize("chance", all_with([0.4, 0.6, 0.75, 0.9], 0.4, 0.9))
async def test_one_stream_gains_nearly_all_that_can_be_gained(pair, chance):
    world = replace(pair, chances=(chance,))
    assert mean_ratio(world, rehearsals=3, waves=4, seeds=2) > max(0.96, 0.91 * best_ratio(world))


@on_pairs
@pytest.mark.parametrize("num_streams", all_with(STREAMS, 4, 32))
async def test_many_streams_gain_too_and_none_loses_without_gain(pair, num_streams):
    world = replace(pair, num_streams=num_streams)
    ratio = mean_ratio(world, rehearsals=3, waves=3, seeds=1)
    assert ratio > 0.97
    assert ratio > 0.8 * best_ratio(world)


@on_pairs
@pytest.mark.parametrize("num_rehearsals", all_with([0, 1], 0))
@pytest.mark.parametrize("num_streams", all_with(STREAMS, 1, 8))
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_useless_draft_costs_a_stream_no_more_than_its_budget(pair, num_rehearsals, num_streams, bad):
    world = replace(pair, num_streams=num_streams, num_tokens=256, **bad)
    simulation = Simulation(world)
    for _ in range(num_rehearsals):
        simulation.rehearse()
    simulation.run(3)
    for life in simulation.lives:
        assert lost(life, world) <= allowed(life)


@pytest.mark.parametrize("prompt", [256, 2048])
async def test_a_draft_that_never_answers_costs_no_more_than_allowed(prompt):
    world = replace(SLOW, prompt=prompt, is_silent=True)
    for life in Simulation(world).run(2).lives:
        assert lost(life, world) <= allowed(life)


async def test_a_draft_that_falls_silent_delays_a_stream_briefly():
    simulation = Simulation(replace(CODER, num_tokens=4000)).rehearse()
    waits: list[float] = []
    take = simulation.draft.take

    def timed(sequence: Sequence, limit: int, *, until: float) -> Seq[int]:
        simulation.world.is_silent = len(waits) > 1000
        began = simulation.clock.now
        predictions = take(sequence, limit, until=until)
        waits.append(simulation.clock.now - began)
        return predictions

    simulation.draft.take = timed
    simulation.run(1)
    silent, (life,) = waits[1001:], simulation.lives
    assert 0 < sum(silent) < 2 * CONFIG.loss_seconds + CONFIG.loss_share * (life.ends[-1] - life.ends[0])
    assert max(silent) <= 1.5 * CONFIG.loss_seconds


@on_pairs
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_rehearsed_bad_draft_costs_next_to_nothing(pair, bad):
    world = replace(pair, num_tokens=256, **bad)
    assert Simulation(world).rehearse().run(3).ratio >= 0.985


@on_pairs
async def test_a_draft_good_only_in_rehearsal_is_found_out(pair):
    simulation = Simulation(replace(pair, chances=(0.02,), rehearsed=0.75, num_tokens=256)).rehearse().run(6)
    assert sum(life.ratio < 1 for life in simulation.lives), "it was believed at first"
    assert all(lost(life, pair) <= allowed(life) for life in simulation.lives)
    assert simulation.ratio >= 0.965


@on_pairs
async def test_a_good_draft_is_used_while_streams_always_wait(pair):
    world = replace(pair, prompt=40)
    assert mean_ratio(world, rehearsals=0, waves=4, seeds=2) > 1 + 0.6 * (best_ratio(world) - 1)


async def test_a_badly_predicted_stream_is_not_slowed_for_others():
    world = replace(SYNTHETIC, num_streams=4, chances=(0.9, 0.9, 0.9, 0.02), rehearsed=0.75, num_tokens=256)
    simulation = Simulation(world).rehearse().run(2)
    assert min(life.ratio for life in simulation.lives) > 0.9
    assert simulation.ratio > 1.0


async def test_a_long_text_is_sent_to_the_draft_only_if_it_gains_more():
    world = replace(SLOW, prompt=2048, num_tokens=256)
    assert mean_ratio(world, rehearsals=1, seeds=2) > 1.5
    world = replace(CODER, prompt=2048, num_tokens=256)
    assert mean_ratio(world, rehearsals=1, seeds=2) > 0.985, "here it would take longer than it saves in 128 tokens"


async def test_how_slowly_a_draft_reads_is_measured_in_a_rehearsal():
    world = replace(CODER, reading=0.004)  # the prompt takes twice as long as predictions are waited for
    simulation = Simulation(world).rehearse()
    assert simulation.draft._prefill_rate.seconds(1000) == pytest.approx(4.0, rel=0.2)


async def test_a_draft_that_turns_bad_or_good_is_found_out():
    simulation = Simulation(SYNTHETIC).rehearse().run(2)
    simulation.world.chances = (0.0,)
    simulation.run(4)
    assert simulation.counts[-100:].count(0) > 90
    simulation.world.chances = (0.9,)
    simulation.run(100)
    assert simulation.counts[-60:].count(0) < 30


async def test_no_length_exceeds_its_limit_nor_all_the_rows():
    simulation = Simulation(replace(SYNTHETIC, num_streams=4, chances=(0.95,), reading=0.0)).rehearse().run(2)
    controller = simulation.speculation._sources[0]._controller
    most, sequences = (0, 1, 2, MOST), [make_sequence(make_request()) for _ in range(4)]
    for each in sequences:
        simulation.draft.open(each, 0)
        simulation.speculation._regret.join(each)
    lengths = controller.plan(sequences, most, StepSize(4, 5)).lengths
    assert 0 < sum(lengths) <= 5
    assert all(length <= limit for length, limit in zip(lengths, most, strict=True))


async def test_a_stream_that_has_just_come_is_thought_about_at_once():
    simulation = Simulation(SYNTHETIC).rehearse()
    for _ in range(4):  # the last step of each leaves no room for a prediction
        simulation.counts.clear()
        simulation.run(1)
        assert simulation.counts[0]


async def test_after_a_vain_search_a_changed_pass_is_planned_anew():
    simulation = Simulation(replace(SYNTHETIC, reading=0.0)).rehearse()
    controller = simulation.speculation._sources[0]._controller
    sequences = [make_sequence(make_request())]
    simulation.draft.open(sequences[0], 0)
    simulation.speculation._regret.join(sequences[0])
    crowded, alone = StepSize(400, 15, num_others=399), StepSize(1, 15)
    for _ in range(100):
        assert controller.plan(sequences, [0], alone).lengths == [0], "there is no room"
    assert controller.plan(sequences, [15], alone).lengths != [0]
    for _ in range(100):
        assert sum(controller.plan(sequences, [15], crowded).lengths) <= 1, "one of 400 gains"
    assert controller.plan(sequences, [15], alone).lengths != [0]


async def test_probes_that_cost_nothing_may_fail_for_ever():
    config, free = PolicyConfig(), replace(SYNTHETIC, cost=lambda _: 0.035, num_tokens=3000, chances=(0.0,))
    passes = PassCost(config, padded=lambda _: 32)
    passes.observe(1, 0.035)
    regret, predictor = Regret(config, Simulation(free).clock), SilentPredictor()
    controller = LengthController(predictor, passes, regret, config)
    sequence = make_sequence(make_request())
    regret.join(sequence)
    num_probes = 0
    for _ in range(1200):
        if sum(controller.plan([sequence], [1], StepSize(26, 1, num_others=25)).lengths):
            num_probes += 1
            controller.settle(sequence, 1, 0)
    assert num_probes > 1024, "more than the exponent of a float"


async def test_while_nothing_pays_it_is_tried_ever_more_rarely():
    world = replace(SYNTHETIC, chances=(0.02,), num_tokens=4000, reading=1e-6)
    simulation = Simulation(world).rehearse().run(1)
    tried = [step for step, count in enumerate(simulation.counts) if count]
    later = [step for step in tried if step > 200]
    assert 0 < len(later) < 8
    assert len([step for step in tried if step <= 200]) < 100
