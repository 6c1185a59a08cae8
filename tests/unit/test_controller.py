"""Controller: on a simulated target and draft it comes near the best choice, and never loses more than a little."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from services.engine.sequence import Sequence
from services.target.controller import Candidate, Controller
from services.target.draft_pace import DraftPace
from services.target.pass_cost import PassCost
from tests.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence

MOST = 15
STEPS = 1500


@dataclass
class World:
    """How fast a target and its draft are, in plain passes of one sequence, and how often the draft is right."""

    chance: float  # of each prediction to be right
    cost: Callable[[int], float] = lambda num_rows: 1 + 0.01 * (num_rows - 1)
    delay: float = 0.03
    draft_step: float = 0.1
    noise: float = 0.1
    num_sequences: int = 1
    reading: float = 0.0  # what the draft has to catch up with, for each sequence
    num_tokens: int = 1_000_000  # of a sequence, in whose place another comes then

    def rate(self, count: int) -> float:
        """Tokens of a sequence per plain step's time, with so many predictions in each pass."""
        rows = self.num_sequences * (1 + count)
        tokens = sum(self.chance**place for place in range(count + 1))
        reading = self.num_sequences * self.reading * tokens / self.num_tokens
        wait = self.delay + self.draft_step * count + reading if count else 0.0
        return tokens * self.cost(self.num_sequences) / (self.cost(rows) + wait)


@dataclass
class Simulation(SilentPredictor):
    """Steps of a controller in a world; the predictor knows how long the answers took."""

    world: World
    seed: int = 1
    counts: list[int] = field(default_factory=list)  # of predictions for the first sequence, by step
    seconds: float = 0.0
    num_tokens: int = 0

    def __post_init__(self) -> None:
        self._pace = DraftPace()
        self._passes = PassCost()
        self.controller = Controller(self, self._passes)
        self._left: dict[Sequence, int] = {}  # tokens of each sequence
        self._have_read: set[Sequence] = set()
        self._sequences = [self._new_sequence() for _ in range(self.world.num_sequences)]
        self._chance = random.Random(self.seed)

    def wait_for(self, sequence: Sequence, count: int) -> float:
        return self._pace.seconds(count)

    def catch_up(self, sequence: Sequence) -> float | None:
        if not self.world.reading or sequence in self._have_read:
            return 0.0
        return self.world.reading if self._have_read else None

    def run(self, num_steps: int = STEPS) -> "Simulation":
        for _ in range(num_steps):
            self._step()
        return self

    @property
    def speed(self) -> float:
        """Against decoding without predictions."""
        world = self.world
        return self.num_tokens * world.cost(world.num_sequences) / world.num_sequences / self.seconds

    def _step(self) -> None:
        world, num_sequences = self.world, len(self._sequences)
        candidates = [Candidate(sequence, MOST) for sequence in self._sequences]
        counts = self.controller.plan(candidates, num_rows=num_sequences, spare_rows=512 - num_sequences)
        longest, num_rows = max(counts), num_sequences + sum(counts)
        wait = (world.delay + world.draft_step * longest) * self._noise() if longest else 0.0
        if longest:
            self._pace.observe(longest, wait)
        wait += self._read(counts)
        seconds = world.cost(num_rows) * self._noise()
        committed = [1 + self._verify(*each) for each in zip(self._sequences, counts, strict=True)]
        num_committed = sum(committed)
        self._sequences = [self._go_on(*each) for each in zip(self._sequences, committed, strict=True)]
        self._passes.observe(num_rows, seconds)
        self.controller.observe(
            is_speculative=longest > 0,
            num_sequences=num_sequences,
            num_committed=num_committed,
            seconds=seconds + wait,
        )
        self.counts.append(counts[0])
        self.seconds += seconds + wait
        self.num_tokens += num_committed

    def _new_sequence(self) -> Sequence:
        sequence = make_sequence(make_request(max_tokens=self.world.num_tokens))
        self._left[sequence] = self.world.num_tokens
        return sequence

    def _go_on(self, sequence: Sequence, num_committed: int) -> Sequence:
        self._left[sequence] -= num_committed
        if self._left[sequence] > 0:
            return sequence
        self.controller.close(sequence)
        return self._new_sequence()

    def _read(self, counts: list[int]) -> float:
        """How long the draft is busy with sequences that it has not seen before."""
        new = {sequence for sequence, count in zip(self._sequences, counts, strict=True) if count} - self._have_read
        self._have_read |= new
        return len(new) * self.world.reading

    def _verify(self, sequence: Sequence, count: int) -> int:
        num_accepted = 0
        while num_accepted < count and self._chance.random() < self.world.chance:
            num_accepted += 1
        if count:
            self.controller.settle(sequence, count, num_accepted)
        return num_accepted

    def _noise(self) -> float:
        return max(0.3, self._chance.gauss(1, self.world.noise))


GOOD = World(chance=0.8)
WORLDS = {
    "a good draft": GOOD,
    "a noisy machine": World(chance=0.8, noise=0.4),
    "high temperature": World(chance=0.3),
    "costly rows": World(chance=0.8, cost=lambda num_rows: 1 + 0.15 * (num_rows - 1)),
    "eight sequences": World(chance=0.8, num_sequences=8, draft_step=0.2),
    "prompts to read": World(chance=0.8, reading=2.0, num_tokens=64),
    "long prompts to read": World(chance=0.8, reading=20.0, num_tokens=400),
}
LOST = {
    "an adversarial draft": World(chance=0.0),
    "an adversarial draft on a noisy machine": World(chance=0.0, noise=0.4),
    "a slow draft": World(chance=0.8, draft_step=2.0),
    "a link as slow as many passes": World(chance=0.7, delay=5.0),
    "64 sequences and rows that cost": World(
        chance=0.8, num_sequences=64, cost=lambda num_rows: 1 + 0.05 * num_rows, draft_step=1.0
    ),
    "64 sequences whose prompts a draft must read": World(
        chance=0.8, num_sequences=64, cost=lambda num_rows: 1 + 0.05 * num_rows, reading=2.0, num_tokens=64
    ),
    "eight such sequences": World(
        chance=0.8, num_sequences=8, cost=lambda num_rows: 1 + 0.2 * num_rows, reading=3.0, num_tokens=64
    ),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("seed", range(3))
async def test_it_comes_near_the_best_fixed_number(world, seed):
    best = max(world.rate(count) for count in range(MOST + 1))
    assert Simulation(world, seed).run().speed > 0.85 * best


@pytest.mark.parametrize("world", LOST.values(), ids=LOST)
@pytest.mark.parametrize("seed", range(3))
async def test_where_speculation_cannot_win_it_costs_next_to_nothing(world, seed):
    assert max(world.rate(count) for count in range(1, MOST + 1)) < 1.0
    simulation = Simulation(world, seed).run()
    assert any(simulation.counts), "it was tried"
    assert simulation.speed > 0.98


async def test_a_draft_that_turns_bad_is_found_out_and_one_that_turns_good_too():
    simulation = Simulation(World(chance=0.8)).run()
    simulation.world.chance = 0.0
    simulation.run()
    assert simulation.counts[-200:].count(0) > 150
    simulation.world.chance = 0.9
    simulation.run(20_000)
    assert simulation.counts[-200:].count(0) < 50


async def test_a_predictor_that_has_just_come_is_tried_at_once():
    simulation = Simulation(World(chance=0.0)).run()
    assert not any(simulation.counts[-20:])
    simulation.controller.look_again()
    simulation.run(1)
    assert simulation.counts[-1]


async def test_places_that_seem_not_to_pay_are_looked_at_again():
    simulation = Simulation(World(chance=0.6, draft_step=0.4)).run(400)
    assert sum(count > 1 for count in simulation.counts[-200:]) >= 3


async def test_one_sequence_tells_how_long_the_draft_reads():
    assert _first_readings(World(chance=0.8, num_sequences=8, reading=0.1)) == (1, 7)


async def test_no_more_is_read_at_once_than_the_account_holds():
    first, second = _first_readings(World(chance=0.95, num_sequences=8, reading=2.0))
    assert first == 1
    assert 1 <= second < 7


def _first_readings(world: World) -> tuple[int, ...]:
    """For how many sequences the draft reads at first, and the next time."""
    simulation, readings = Simulation(world), []
    while len(readings) < 2:
        before = len(simulation._have_read)
        simulation.run(1)
        if len(simulation._have_read) > before:
            readings.append(len(simulation._have_read) - before)
    return tuple(readings)


async def test_it_says_why_it_wants_nothing():
    simulation = Simulation(World(chance=0.0)).run()
    assert simulation.controller.objection.startswith("predictions ")


async def test_nobody_gets_more_than_its_most_nor_all_more_than_the_rows():
    simulation = Simulation(World(chance=0.95, num_sequences=4, draft_step=0.0)).run(200)
    candidates = [Candidate(make_sequence(make_request()), most) for most in (0, 1, 2, MOST)]
    counts = simulation.controller.plan(candidates, num_rows=4, spare_rows=5)
    assert sum(counts) <= 5
    assert all(count <= candidate.most for count, candidate in zip(counts, candidates, strict=True))


async def test_of_two_sequences_the_likelier_gets_more():
    simulation = Simulation(World(chance=0.8, num_sequences=2)).run(300)
    first, second = simulation._sequences
    for _ in range(30):
        simulation.controller.acceptance.observe(first, 4, 4)
        simulation.controller.acceptance.observe(second, 4, 0)
    counts = simulation.controller.plan([Candidate(first, MOST), Candidate(second, MOST)], num_rows=2, spare_rows=64)
    assert counts[0] > counts[1]
