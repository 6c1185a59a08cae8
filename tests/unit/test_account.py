"""Account: a bad predictor costs a small share of the time, whatever it does."""

import pytest

from services.target.account import Account

MANY = 20_000  # steps


def lost(gain: float, *, before: float | None = None) -> float:
    """The share of many steps' time that is lost where every step that may have predictions has this gain."""
    account, total = Account(), 0.0
    if before is not None:
        for _ in range(100):
            account.settle(before)
    for _ in range(MANY):
        if account.is_open:
            account.settle(gain)
            total -= gain
        else:
            account.earn()
    return total / MANY


@pytest.mark.parametrize("gain", [-0.01, -0.1, -0.5, -5.0])
@pytest.mark.parametrize("before", [None, 1.0], ids=["from the beginning", "after a good time"])
def test_what_is_lost_is_bounded(gain, before):
    assert lost(gain, before=before) < 0.01


def test_what_gains_goes_on():
    account = Account()
    for _ in range(MANY):
        assert account.is_open
        account.settle(0.3)


def test_a_single_bad_step_among_good_ones_changes_nothing():
    account = Account()
    for step in range(MANY):
        account.settle(-2.0 if step % 20 == 19 else 0.3)
        assert account.is_open


def test_after_a_while_there_is_another_try():
    account = Account()
    while account.is_open:
        account.settle(-1.0)
    steps = 0
    while not account.is_open:
        account.earn()
        steps += 1
    assert 100 < steps < 1000
