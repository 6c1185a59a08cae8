"""UsageCurve: a leak is distinguished from what merely goes up and down."""

import random

from tests.e2e.harness.usage_curve import UsageCurve


def curve(amounts: list[float], *, allowance: float = 1.0) -> UsageCurve:
    curve = UsageCurve("MiB", allowance=allowance)
    for amount in amounts:
        curve.add(amount)
    return curve


def noisy(index: int) -> float:
    return 100 + random.Random(index).uniform(-5, 5)


def test_noise_is_flat():
    assert curve([noisy(index) for index in range(400)]).problems() == []


def test_a_warm_up_is_no_leak():
    assert curve([min(index, 100) + noisy(index) for index in range(400)]).problems() == []


def test_a_leak_that_outgrows_the_noise_is_found():
    (problem,) = curve([noisy(index) + 0.1 * index for index in range(400)]).problems()
    assert problem.startswith("MiB grew: ")


def test_a_leak_without_noise_is_found_at_the_allowance():
    assert curve([index / 400 for index in range(400)]).problems() == []
    assert curve([2 * index / 400 for index in range(400)]).problems() != []


def test_a_few_samples_are_reported_as_too_few():
    assert curve([1.0] * 9).problems() == ["MiB: only 9 samples"]
