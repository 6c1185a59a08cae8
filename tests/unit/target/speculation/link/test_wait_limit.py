"""WaitLimit: a little longer than the draft usually takes, and nothing once it has stopped answering, but for a try."""

from services.target.speculation.link.wait_limit import WaitLimit
from services.target.speculation.policy.policy_config import PolicyConfig

LONGEST = 0.5
CONFIG = PolicyConfig(longest_wait=LONGEST)


def used_to(delay: float) -> WaitLimit:
    """What a hundred answers of this delay have taught."""
    limit = WaitLimit(CONFIG)
    for _ in range(100):
        limit.arrived(1, delay)
    return limit


def given_up(now: float) -> WaitLimit:
    """What a long wait in vain has, which ended at this time."""
    limit = used_to(0.01)
    limit.missed(now - LONGEST, now)
    return limit


def test_the_wait_starts_at_the_longest():
    assert WaitLimit(CONFIG).seconds(0.0, 1) == LONGEST


def test_the_wait_falls_to_a_little_over_the_usual_delay():
    assert 0.01 < used_to(0.01).seconds(0.0, 1) < 0.02


def test_the_wait_grows_with_the_predictions_asked_for():
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


def test_after_a_long_vain_wait_no_step_waits_until_an_arrival():
    limit = given_up(now=1.0)
    assert limit.seconds(1.1, 1) == 0
    assert limit.expected(1) > LONGEST
    limit.heard()
    assert 0 < limit.seconds(1.2, 1) < LONGEST


def test_misses_make_the_wait_longer_until_there_is_none():
    limit, waits, now = used_to(0.1), [], 0.0
    while wait := limit.seconds(now, 1):
        waits.append(wait)
        limit.missed(now, now + wait)
        now += wait
    assert waits == sorted(waits)
    assert len(waits) > 2


def test_many_sequences_that_wait_through_one_silence_miss_once():
    limit = used_to(0.01)
    for _ in range(64):
        limit.missed(1.0, 1.02)
    assert limit.seconds(1.1, 1) > 0


def test_retries_take_at_most_three_percent_of_a_silence():
    limit, now, waited = given_up(now=0.0), 0.0, 0.0
    for _ in range(20_000):
        now += 0.5
        if wait := limit.seconds(now, 1):
            limit.missed(now, now + wait)
            now, waited = now + wait, waited + wait
    assert limit.seconds(now + 200, 1) == LONGEST
    assert 0 < waited < 0.03 * now


def test_a_draft_slower_than_the_longest_wait_is_not_waited_for():
    limit = used_to(0.6)
    limit.missed(0.0, 0.5)
    assert limit.seconds(1.0, 1) == 0


def test_a_draft_that_has_become_quick_is_waited_for_at_once():
    limit = used_to(2.0)
    limit.arrived(1, 0.01)
    assert 0 < limit.seconds(0.0, 1) <= LONGEST


def test_another_draft_resets_the_wait():
    limit = given_up(now=1.0)
    limit.reset()
    assert limit.seconds(1.1, 1) == LONGEST
