"""Patience: a little longer than the draft usually takes, and nothing once it has stopped answering."""

from services.target.patience import Patience


def test_it_begins_with_the_longest_wait():
    assert Patience(longest=0.5).seconds == 0.5


def test_it_comes_down_to_a_little_more_than_the_usual_delay():
    patience = Patience(longest=0.5)
    for _ in range(100):
        patience.arrived(0.01)
    assert 0.01 < patience.seconds < 0.02


def test_a_draft_that_takes_longer_than_the_longest_wait_is_not_waited_for():
    patience = Patience(longest=0.5)
    for _ in range(100):
        patience.arrived(0.6)
    assert patience.seconds == 0
    for _ in range(100):
        patience.arrived(0.01)
    assert 0.01 < patience.seconds < 0.02


def test_one_long_silence_changes_little():
    patience = Patience(longest=0.5)
    for _ in range(100):
        patience.arrived(0.01)
    patience.arrived(1e6)
    assert 0 < patience.seconds < 0.5


def test_a_miss_makes_the_next_wait_longer():
    patience = Patience(longest=0.5)
    for _ in range(100):
        patience.arrived(0.01)
    before = patience.seconds
    patience.missed()
    assert before < patience.seconds <= 0.5


def test_after_three_misses_nobody_waits_until_something_arrives():
    patience = Patience(longest=0.5)
    waits = []
    for _ in range(4):
        patience.missed()
        waits.append(patience.seconds > 0)
    assert waits == [True, True, False, False]
    patience.arrived(0.01)
    assert patience.seconds > 0


def test_misses_count_only_in_a_row():
    patience = Patience(longest=0.5)
    for _ in range(10):
        patience.missed()
        patience.missed()
        patience.arrived(0.1)
    assert patience.seconds > 0
