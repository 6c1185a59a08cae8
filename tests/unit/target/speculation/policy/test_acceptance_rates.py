"""AcceptanceRates: by position for all sequences together, and by sequence against that."""

import itertools
import random

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.policy_config import AcceptanceConfig
from tests.unit.sequences import make_request, make_sequence


def make_rates() -> AcceptanceRates:
    return AcceptanceRates(AcceptanceConfig(), num_positions=4)


def probabilities(rates: AcceptanceRates, sequence: Sequence, length: int) -> list[float]:
    return [*itertools.islice(rates.run_probabilities(sequence), length)]


def verify(rates: AcceptanceRates, sequence: Sequence, shares: list[float], *, runs: int, seed: int = 1) -> None:
    """Runs whose prediction at each position is accepted with the chance given there."""
    chance = random.Random(seed)
    for _ in range(runs):
        hits = [chance.random() < share for share in shares]
        rates.observe(sequence, len(shares), hits.index(False) if False in hits else len(hits))


async def test_chances_shrink_along_a_run():
    chances = probabilities(make_rates(), make_sequence(make_request()), 8)
    assert len(chances) == 8
    assert all(later < earlier for earlier, later in itertools.pairwise(chances))


async def test_each_position_has_its_own_rate():
    rates, sequence = make_rates(), make_sequence(make_request())
    verify(rates, sequence, [0.9, 0.5, 0.9], runs=2000)
    chances = probabilities(rates, make_sequence(make_request()), 3)
    assert chances == pytest.approx([0.9, 0.45, 0.405], abs=0.12)


async def test_what_lies_behind_a_rejection_gets_no_verdict():
    rates, sequence = make_rates(), make_sequence(make_request())
    before = probabilities(rates, make_sequence(make_request()), 2)
    for _ in range(50):
        rates.observe(sequence, 2, 0)
    chances = probabilities(rates, make_sequence(make_request()), 2)
    assert chances[0] < 0.1
    assert chances[1] / chances[0] == pytest.approx(before[1] / before[0])


async def test_a_sequence_that_is_easier_or_harder_than_the_others_is_told_apart():
    rates = make_rates()
    easy, hard = make_sequence(make_request()), make_sequence(make_request())
    for seed in range(40):
        verify(rates, easy, [0.9] * 4, runs=10, seed=seed)
        verify(rates, hard, [0.3] * 4, runs=10, seed=-seed)
    new = probabilities(rates, make_sequence(make_request()), 1)[0]
    assert probabilities(rates, hard, 1)[0] < 0.8 * new < new < 0.9 * probabilities(rates, easy, 1)[0]


async def test_a_closed_sequence_is_forgotten():
    rates, sequence = make_rates(), make_sequence(make_request())
    verify(rates, sequence, [0.1], runs=3)
    rates.close(sequence)
    assert probabilities(rates, sequence, 4) == probabilities(rates, make_sequence(make_request()), 4)
