"""Regret: a stream may lose three percent of its time, or three tenths of a second if that is more."""

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from tests.unit.sequences import make_request, make_sequence
from tests.unit.simulation import Clock

CONFIG = PolicyConfig()


def make() -> Sequence:
    return make_sequence(make_request())


async def test_without_a_decoding_stream_speculation_is_free():
    regret, sequence = Regret(CONFIG, Clock()), make()
    assert regret.is_free
    regret.join(sequence)
    assert not regret.is_free
    regret.leave(sequence)
    regret.leave(sequence)
    assert regret.is_free


async def test_losses_reduce_what_is_left():
    regret, sequence, other = Regret(CONFIG, Clock()), make(), make()
    for each in (sequence, other, sequence):
        regret.join(each)
    regret.observe(sequence, 0.1)
    assert regret.left([sequence, other]) == [pytest.approx(0.2), pytest.approx(0.3)]
    regret.observe(sequence, 5.0)
    assert regret.left([sequence]) == [0.0]


async def test_a_long_stream_may_lose_more():
    clock, sequence = Clock(), make()
    regret = Regret(CONFIG, clock)
    regret.join(sequence)
    clock.now += 100.0
    assert regret.left([sequence]) == [pytest.approx(3.0)]


async def test_gains_offset_losses_up_to_a_limit():
    regret, sequence = Regret(CONFIG, Clock()), make()
    regret.join(sequence)
    regret.observe(sequence, 0.3)
    regret.observe(sequence, -0.2)
    assert regret.left([sequence]) == [pytest.approx(0.2)]
    regret.observe(sequence, -100.0)
    assert regret.left([sequence]) == [pytest.approx(0.6)]


async def test_a_stream_that_is_not_decoding_has_nothing_to_lose():
    regret, sequence = Regret(CONFIG, Clock()), make()
    regret.observe(sequence, 1.0)
    assert regret.left([sequence]) == [0.0]
