"""WaitLimit: a little longer than the draft usually takes, and nothing once it has stopped answering, but for a try."""

from services.target.speculation.link.wait_limit import WaitLimit
from services.target.speculation.policy.draft_config import DraftConfig

LONGEST = 0.5
CONFIG = DraftConfig(longest_wait=LONGEST)


def used_to(delay: float) -> WaitLimit:
    """What a hundred answers of this delay have taught."""
    limit = WaitLimit(CONFIG)
    for _ in range(100):
        limit.arrived(1, delay)
    return limit


def given_up(now: float) -> WaitLimit:
    """What three misses have, the last of them at this time."""
    limit = used_to(0.01)
    for second in (2, 1, 0):
        limit.missed(now - second - 0.1, now - second)
    return limit


def test_it_begins_with_the_longest_wait():
    assert WaitLimit(CONFIG).seconds(0.0, 1) == LONGEST


def test_it_comes_down_to_a_little_more_than_the_usual_delay():
    assert 0.01 < used_to(0.01).seconds(0.0, 1) < 0.02


def test_more_predictions_are_waited_for_longer_and_an_unknown_amount_of_work_longest():
    limit = used_to(0.01)
    assert limit.expected(1) < limit.expected(4)
    assert limit.seconds(0.0, 1) < limit.seconds(0.0, 4) < limit.seconds(0.0, None) == LONGEST


def test_one_long_silence_changes_little():
    limit = used_to(0.01)
    limit.arrived(1, 1e6)
    assert 0 < limit.seconds(0.0, 1) < LONGEST


def test_a_miss_makes_the_next_wait_longer():
    limit = used_to(0.01)
    before = limit.seconds(0.0, 1)
    limit.missed(0.0, 0.02)
    assert before < limit.seconds(0.03, 1) <= LONGEST


def test_after_three_misses_nobody_waits_until_something_arrives():
    limit = given_up(now=1.0)
    assert limit.seconds(1.1, 1) == 0
    limit.arrived(1, 0.01)
    assert 0 < limit.seconds(1.2, 1) < LONGEST


def test_misses_count_only_in_a_row():
    limit = used_to(0.1)
    for second in range(0, 30, 3):
        limit.missed(second, second + 1)
        limit.missed(second + 1.5, second + 2)
        limit.arrived(1, 0.1)
    assert limit.seconds(30.0, 1) > 0


def test_many_sequences_that_wait_through_one_silence_miss_once():
    limit = used_to(0.01)
    for _ in range(64):
        limit.missed(1.0, 1.02)
    assert limit.seconds(1.1, 1) > 0


def test_short_silences_are_tried_again_soon_and_each_try_is_longer():
    """A draft that a busy machine has held up for milliseconds is not given up for a minute."""
    limit = given_up(now=1.0)  # by waits of 0.1 s
    assert limit.seconds(20.0, 1) == 0
    tried = limit.seconds(22.0, 1)
    assert 0.1 < tried < LONGEST
    limit.missed(22.0, 22.0 + tried)
    assert limit.seconds(45.0, 1) == 0
    assert tried < limit.seconds(100.0, 1) < LONGEST


def test_however_long_the_silence_tries_take_half_a_percent_of_the_time():
    limit, now, waited = given_up(now=0.0), 0.0, 0.0
    for _ in range(20_000):
        now += 0.5
        if wait := limit.seconds(now, 1):
            limit.missed(now, now + wait)
            now, waited = now + wait, waited + wait
    assert limit.seconds(now + 200, 1) == LONGEST
    assert 0 < waited < 0.0055 * now


def test_a_draft_that_takes_longer_than_the_longest_wait_is_not_waited_for():
    limit = used_to(0.6)
    limit.missed(0.0, 0.5)
    assert limit.seconds(1.0, 1) == 0


def test_a_draft_that_has_become_quick_is_waited_for_at_once():
    limit = used_to(2.0)
    limit.arrived(1, 0.01)
    assert 0 < limit.seconds(0.0, 1) <= LONGEST


def test_with_another_draft_it_begins_anew():
    limit = given_up(now=1.0)
    limit.reset()
    assert limit.seconds(1.1, 1) == LONGEST
