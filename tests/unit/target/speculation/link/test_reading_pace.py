"""ReadingPace: what a draft takes per token, measured over the sequences that it reads at once."""

import pytest

from services.target.speculation.link.draft_prefill_rate import ReadingPace
from services.target.speculation.policy.policy_config import DraftConfig


def test_one_sequence_tells_the_pace():
    pace = ReadingPace(DraftConfig())
    assert pace.seconds(100) is None
    pace.asked(1, 100, now=5.0)
    pace.answered(1, at=5.2)
    assert pace.seconds(50) == pytest.approx(0.1)


def test_sequences_that_are_read_together_count_as_one_stretch():
    pace = ReadingPace(DraftConfig())
    pace.asked(1, 100, now=5.0)
    pace.asked(2, 300, now=5.1)
    pace.asked(2, 300, now=5.2)
    pace.answered(2, at=5.3)
    assert pace.seconds(100) is None
    pace.answered(1, at=5.4)
    assert pace.seconds(100) == pytest.approx(0.1)


def test_a_stretch_that_was_given_up_says_nothing():
    pace = ReadingPace(DraftConfig())
    pace.asked(1, 100, now=5.0)
    pace.asked(2, 100, now=5.0)
    pace.gave_up(2)
    pace.answered(1, at=9.0)
    assert pace.seconds(1) is None
    pace.asked(1, 10, now=10.0)
    pace.answered(1, at=11.0)
    assert pace.seconds(1) == pytest.approx(0.1)


def test_an_answer_that_came_sooner_than_it_could_took_no_time():
    pace = ReadingPace(DraftConfig())
    pace.asked(1, 10, now=10.0)
    pace.answered(1, at=9.9)
    assert pace.seconds(100) == 0


def test_it_follows_what_changes():
    pace = ReadingPace(DraftConfig())
    for stretch in range(20):
        pace.asked(1, 10, now=stretch)
        pace.answered(1, at=stretch + (0.1 if stretch < 1 else 0.5))
    assert pace.seconds(10) == pytest.approx(0.5, rel=0.01)
