"""LossBudget: a stream loses little of any window of its life, whatever predictions are worth."""

import math

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.loss_budget import LossBudget
from services.target.speculation.policy.policy_config import LossBudgetConfig
from tests.unit.sequences import make_request, make_sequence
from tests.unit.simulation import Clock

CONFIG = LossBudgetConfig()
LIMIT = CONFIG.window * CONFIG.window_loss
STEP = 0.05


class Streams:
    """A budget, its clock, and streams that it is kept for."""

    def __init__(self, *, num_tokens: int = 1_000_000) -> None:
        self.clock = Clock()
        self.budget = LossBudget(CONFIG, self.clock)
        self.stream = self.join(num_tokens)

    def join(self, num_tokens: int = 1_000_000) -> Sequence:
        sequence = make_sequence(make_request(b"x", max_tokens=num_tokens))
        self.budget.join(sequence)
        return sequence

    def step(self, gain: float = 0.0, *, seconds: float = STEP, advance: float = 0.0) -> None:
        self.clock.now += seconds
        self.budget.observe(gain, advance=advance)


async def test_where_nobody_waits_there_is_all_the_time():
    streams = Streams()
    streams.budget.leave(streams.stream)
    assert streams.budget.is_unlimited
    assert streams.budget.for_step(0.0, step=STEP) == math.inf
    assert streams.budget.for_prefill(0.0, step=STEP) == math.inf


async def test_a_step_may_lose_a_share_of_a_window():
    assert Streams().budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT)


async def test_of_a_short_life_it_may_lose_less():
    budget = Streams(num_tokens=4).budget
    assert budget.for_step(0.0, step=STEP) == pytest.approx(4 * STEP * CONFIG.window_loss)


async def test_what_was_lost_is_missing_until_the_window_is_over():
    streams = Streams()
    streams.step(-LIMIT / 2)
    assert streams.budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT / 2)
    streams.step(seconds=1.01 * CONFIG.window)
    assert streams.budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT)


async def test_what_was_won_may_be_lost_within_the_window():
    streams = Streams()
    streams.step(1.0)
    assert streams.budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT + 1.0)
    streams.step(seconds=1.01 * CONFIG.window)
    assert streams.budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT)


async def test_a_young_stream_may_pay_in_advance_for_what_it_is_expected_to_win():
    streams = Streams()
    at_first = streams.budget.for_prefill(0.5, step=STEP)
    assert LIMIT < at_first < 0.5 * CONFIG.window
    streams.step(seconds=1.01 * CONFIG.window)
    assert streams.budget.for_prefill(0.5, step=STEP) == pytest.approx(LIMIT)


async def test_what_was_paid_in_advance_does_not_stop_what_was_paid_for():
    streams = Streams()
    streams.step(-0.2, advance=0.2)
    assert streams.budget.for_step(0.5, step=STEP) > LIMIT
    assert streams.budget.for_prefill(0.0, step=STEP) == 0


async def test_once_more_was_lost_than_may_be_it_is_paid_first():
    streams = Streams()
    streams.step(-2 * LIMIT)
    streams.budget.refuse()
    assert streams.budget.is_overdrawn
    streams.step(seconds=1.01 * CONFIG.window)
    assert streams.budget.for_step(0.5, step=STEP) == 0
    for _ in range(int(2 * LIMIT / CONFIG.income)):
        streams.step(seconds=1.0)
    assert not streams.budget.is_overdrawn
    assert streams.budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT)


async def test_a_younger_stream_does_not_know_what_an_older_one_won():
    streams = Streams()
    streams.step(1.0)
    streams.clock.now += STEP
    streams.join()
    streams.budget.leave(streams.stream)
    assert streams.budget.for_step(0.0, step=STEP) == pytest.approx(LIMIT)


async def test_whoever_spends_all_that_is_left_loses_no_more_than_the_income():
    streams, lost, seconds = Streams(), 0.0, 10_000.0
    while streams.clock.now < 1000.0 + seconds:
        spent = streams.budget.for_probe(step=STEP)
        streams.step(-spent)
        lost += spent
    assert lost <= LIMIT + CONFIG.income * (seconds + STEP)
