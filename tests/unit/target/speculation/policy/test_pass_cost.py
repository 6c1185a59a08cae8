"""PassCost: what a pass costs is learned from passes, and more rows never cost less."""

import random

import pytest

from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig


def measured(*passes: tuple[int, float], times: int = 1) -> PassCost:
    cost = PassCost(PolicyConfig())
    for _ in range(times):
        for num_rows, seconds in passes:
            cost.observe(num_rows, seconds)
    return cost


def test_without_a_measurement_no_cost_is_known():
    cost = PassCost(PolicyConfig())
    assert cost.seconds(1) == 0.0
    assert [*cost.table(4)] == [0.0] * 5


def test_each_row_costs_a_little_until_a_second_size_is_measured():
    cost = measured((1, 1.0), times=3)
    assert cost.seconds(1)
    assert 1.0 < cost.seconds(5) < cost.seconds(9) < 1.3


def test_times_rise_in_steps_of_the_rows_the_device_computes():
    cost = PassCost(PolicyConfig(), lambda rows: -(-rows // 8) * 8)
    for _ in range(50):
        cost.observe(3, 1.0)
        cost.observe(12, 2.0)
    assert cost.seconds(1) == cost.seconds(8) == pytest.approx(1.0, rel=0.05)
    assert cost.seconds(9) == cost.seconds(16) == pytest.approx(2.0, rel=0.05)
    assert cost.seconds(17) == cost.seconds(24) == pytest.approx(3.0, rel=0.05)


def test_the_table_has_the_time_of_every_size():
    cost = measured((1, 1.0), (9, 4.0), times=20)
    assert [*cost.table(40)[:41]] == [cost.seconds(rows) for rows in range(41)]


def test_costs_are_interpolated_and_extrapolated():
    cost = measured((1, 1.0), (9, 4.0), times=200)
    assert cost.seconds(1) == pytest.approx(1.0, rel=0.1)
    assert cost.seconds(5) == pytest.approx(2.0, rel=0.1)
    assert cost.seconds(9) == pytest.approx(4.0, rel=0.1)
    assert cost.seconds(17) == pytest.approx(7.0, rel=0.1)


def test_more_rows_never_cost_less():
    cost = measured((1, 2.0), (4, 1.0), times=100)
    assert cost.seconds(1) == cost.seconds(4)


def test_one_slow_pass_changes_the_cost_little():
    cost = measured((1, 1.0), times=20)
    cost.observe(1, 1000.0)
    assert cost.seconds(1) < 1.1


def test_a_slower_machine_is_slower_at_every_size():
    cost = measured((1, 1.0), (8, 1.2), times=20)
    for _ in range(100):
        cost.observe(1, 2.0)
    assert cost.seconds(1) == pytest.approx(2.0, rel=0.05)
    assert cost.seconds(8) > 1.9


def test_noise_averages_out():
    cost, chance = PassCost(PolicyConfig()), random.Random(1)
    for _ in range(500):
        cost.observe(1, chance.uniform(0.8, 1.2))
        cost.observe(8, chance.uniform(1.2, 1.6))
    assert cost.seconds(1) == pytest.approx(1.0, rel=0.1)
    assert cost.seconds(8) == pytest.approx(1.4, rel=0.1)
