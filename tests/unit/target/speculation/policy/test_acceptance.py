"""Acceptance: by place for all sequences together, and by sequence against that."""

import itertools
import random

import pytest

from services.target.scheduling.sequence import Sequence
from services.target.speculation.policy.acceptance import Acceptance
from services.target.speculation.policy.policy_config import AcceptanceConfig
from tests.unit.sequences import make_request, make_sequence


def new_acceptance() -> Acceptance:
    return Acceptance(AcceptanceConfig(), places=4)


def verify(acceptance: Acceptance, sequence: Sequence, shares: list[float], *, runs: int, seed: int = 1) -> None:
    """Runs whose prediction at each place comes true with the chance given there."""
    chance = random.Random(seed)
    for _ in range(runs):
        hits = [chance.random() < share for share in shares]
        acceptance.observe(sequence, len(shares), hits.index(False) if False in hits else len(hits))


async def test_gains_shrink_along_a_run():
    gains = new_acceptance().gains(make_sequence(make_request()), 8)
    assert len(gains) == 8
    assert all(later < earlier for earlier, later in itertools.pairwise(gains))


async def test_each_place_has_its_own_share():
    acceptance, sequence = new_acceptance(), make_sequence(make_request())
    verify(acceptance, sequence, [0.9, 0.5, 0.9], runs=2000)
    gains = acceptance.gains(make_sequence(make_request()), 3)
    assert gains == pytest.approx([0.9, 0.45, 0.405], abs=0.12)


async def test_what_lies_behind_a_rejection_is_not_judged():
    acceptance, sequence = new_acceptance(), make_sequence(make_request())
    before = acceptance.gains(make_sequence(make_request()), 2)
    for _ in range(50):
        acceptance.observe(sequence, 2, 0)
    gains = acceptance.gains(make_sequence(make_request()), 2)
    assert gains[0] < 0.1
    assert gains[1] / gains[0] == pytest.approx(before[1] / before[0])


async def test_a_sequence_that_is_easier_or_harder_than_the_others_is_told_apart():
    acceptance = new_acceptance()
    easy, hard = make_sequence(make_request()), make_sequence(make_request())
    for seed in range(40):
        verify(acceptance, easy, [0.9] * 4, runs=10, seed=seed)
        verify(acceptance, hard, [0.3] * 4, runs=10, seed=-seed)
    new = acceptance.gains(make_sequence(make_request()), 1)[0]
    assert acceptance.gains(hard, 1)[0] < 0.8 * new < new < 0.9 * acceptance.gains(easy, 1)[0]


async def test_a_closed_sequence_is_forgotten():
    acceptance, sequence = new_acceptance(), make_sequence(make_request())
    verify(acceptance, sequence, [0.1], runs=3)
    acceptance.close(sequence)
    assert acceptance.gains(sequence, 4) == acceptance.gains(make_sequence(make_request()), 4)
