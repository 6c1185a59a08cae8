"""DraftPrefillRate: what a draft takes per token, measured over the sequences that it reads at once."""

import pytest

from services.target.speculation.link.draft_prefill_rate import DraftPrefillRate
from services.target.speculation.policy.policy_config import PolicyConfig


def test_one_sequence_measures_the_rate():
    rate = DraftPrefillRate(PolicyConfig())
    assert rate.seconds(100) is None
    rate.asked(1, 100, now=5.0)
    rate.answered(1, at=5.2)
    assert rate.seconds(50) == pytest.approx(0.1)


def test_sequences_that_are_read_together_count_as_one_stretch():
    rate = DraftPrefillRate(PolicyConfig())
    rate.asked(1, 100, now=5.0)
    rate.asked(2, 300, now=5.1)
    rate.asked(2, 300, now=5.2)
    rate.answered(2, at=5.3)
    assert rate.seconds(100) is None
    rate.answered(1, at=5.4)
    assert rate.seconds(100) == pytest.approx(0.1)


def test_a_stretch_given_up_does_not_count():
    rate = DraftPrefillRate(PolicyConfig())
    rate.asked(1, 100, now=5.0)
    rate.asked(2, 100, now=5.0)
    rate.gave_up(2)
    rate.answered(1, at=9.0)
    assert rate.seconds(1) is None
    rate.asked(1, 10, now=10.0)
    rate.answered(1, at=11.0)
    assert rate.seconds(1) == pytest.approx(0.1)


def test_an_answer_that_came_sooner_than_it_could_took_no_time():
    rate = DraftPrefillRate(PolicyConfig())
    rate.asked(1, 10, now=10.0)
    rate.answered(1, at=9.9)
    assert rate.seconds(100) == 0


def test_the_rate_follows_changes():
    rate = DraftPrefillRate(PolicyConfig())
    for stretch in range(20):
        rate.asked(1, 10, now=stretch)
        rate.answered(1, at=stretch + (0.1 if stretch < 1 else 0.5))
    assert rate.seconds(10) == pytest.approx(0.5, rel=0.05)
