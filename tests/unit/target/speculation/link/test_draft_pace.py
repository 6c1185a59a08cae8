"""DraftPace: a delay, and a time for each prediction, from answers of several lengths."""

import random

import pytest

from services.target.speculation.link.draft_latency import DraftPace
from services.target.speculation.policy.policy_config import DraftConfig


def test_before_the_first_answer_nothing_is_known():
    pace = DraftPace(DraftConfig())
    assert not pace.is_known
    assert pace.seconds(4) == 0.0


def test_answers_of_one_length_are_taken_to_grow_with_it():
    pace = DraftPace(DraftConfig())
    for _ in range(10):
        pace.observe(4, 0.02)
    assert pace.seconds(4) == pytest.approx(0.02)
    assert pace.seconds(8) == pytest.approx(0.04)


def test_answers_of_several_lengths_tell_the_delay_from_the_steps():
    pace, chance = DraftPace(DraftConfig()), random.Random(1)
    for _ in range(200):
        count = chance.randrange(1, 9)
        pace.observe(count, (0.01 + 0.005 * count) * chance.uniform(0.95, 1.05))
    assert pace.seconds(1) == pytest.approx(0.015, rel=0.1)
    assert pace.seconds(8) == pytest.approx(0.05, rel=0.1)


def test_a_draft_that_has_become_slower_is_noticed():
    pace = DraftPace(DraftConfig())
    for delay in (0.01, 0.05):
        for count in (2, 4, 6) * 50:
            pace.observe(count, delay + 0.001 * count)
    assert pace.seconds(4) == pytest.approx(0.054, rel=0.05)


def test_longer_runs_never_take_less():
    pace = DraftPace(DraftConfig())
    for count, seconds in [(1, 0.05), (8, 0.01)] * 20:
        pace.observe(count, seconds)
    assert 0 < pace.seconds(1) <= pace.seconds(8)
