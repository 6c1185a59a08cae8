"""bet: what predictions cost is counted in whole windows of a stream's life."""

import pytest

from benchmarks.bet import worst_window_loss

PASS = (0.125, 0.0)


def test_a_first_wait_is_a_loss_of_the_window_that_it_begins() -> None:
    assert worst_window_loss([(0.25, 0.125), *[PASS] * 14]) == pytest.approx(0.125 / 2.0)
    assert worst_window_loss([(0.25, 0.125), *[PASS] * 100]) == pytest.approx(0.125 / 2.0)


def test_what_is_won_in_the_same_window_makes_up_for_it() -> None:
    assert worst_window_loss([(0.25, 0.125), *[(0.125, -0.0625)] * 100]) == 0.0


def test_of_a_life_that_is_shorter_than_a_window_all_counts() -> None:
    assert worst_window_loss([(0.25, 0.125), *[PASS] * 6]) == pytest.approx(0.125 / 1.0)
    assert worst_window_loss([(0.25, 0.125), *[(0.125, -0.0625)] * 6]) == 0.0


def test_the_worst_window_of_a_long_life_counts_and_one_that_is_not_full_does_not() -> None:
    quiet = [PASS] * 32
    assert worst_window_loss([*quiet, (0.125, 0.0625), (0.125, 0.0625), *quiet]) == pytest.approx(0.125 / 2.0)
    assert worst_window_loss([(0.125, 0.1), (0.125, -0.1), *quiet]) == pytest.approx(0.0)


def test_a_pass_that_is_longer_than_a_window_is_one() -> None:
    assert worst_window_loss([*[PASS] * 16, (4.0, 3.0), *[PASS] * 16]) == pytest.approx(0.75)


def test_no_pass_lost_nothing() -> None:
    assert worst_window_loss([]) == 0.0
