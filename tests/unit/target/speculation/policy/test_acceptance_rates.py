"""AcceptanceRates: by position for all sequences together, and by sequence against that."""

import itertools
import random

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.policy_config import PolicyConfig
from tests.unit.sequences import make_request, make_sequence


def make_rates() -> AcceptanceRates:
    return AcceptanceRates(PolicyConfig())


def probabilities(rates: AcceptanceRates, sequence: Sequence, length: int) -> list[float]:
    (chances,) = rates.probabilities([sequence])
    return chances[:length].tolist()


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


async def test_positions_after_a_rejection_get_no_verdict():
    rates, sequence = make_rates(), make_sequence(make_request())
    verify(rates, sequence, [1.0, 0.9], runs=50)
    before = probabilities(rates, make_sequence(make_request()), 2)
    for _ in range(20):
        rates.observe(sequence, 2, 0)
    chances = probabilities(rates, make_sequence(make_request()), 2)
    assert chances[0] < 0.75 * before[0]
    assert chances[1] / chances[0] == pytest.approx(before[1] / before[0], rel=0.1), "but for its prior"


async def test_a_position_without_verdicts_is_like_the_one_before_it():
    rates, sequence = make_rates(), make_sequence(make_request())
    verify(rates, sequence, [0.95], runs=200)
    first, second, third = probabilities(rates, make_sequence(make_request()), 3)
    assert second / first == pytest.approx(first)
    assert third / second == pytest.approx(first)


async def test_a_hopeful_estimate_is_higher_for_unknown_sequences():
    rates, known, new = make_rates(), make_sequence(make_request()), make_sequence(make_request())
    verify(rates, known, [0.5] * 2, runs=100)
    sober, hopeful = (rates.probabilities([known, new], [hope] * 2)[:, 0] for hope in (False, True))
    assert sober[0] < hopeful[0]
    assert hopeful[0] / sober[0] < hopeful[1] / sober[1] < 1.3
    (alone,) = rates.probabilities([new], [True])
    assert alone[0] > hopeful[1], "many are less often all lucky"


async def test_easier_and_harder_sequences_are_distinguished():
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
