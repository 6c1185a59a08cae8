"""DraftLatency: a delay, and a time for each prediction, from answers of several lengths."""

import random

import pytest

from services.target.speculation.link.draft_latency import DraftLatency
from services.target.speculation.policy.policy_config import PolicyConfig


def test_before_the_first_answer_nothing_is_known():
    latency = DraftLatency(PolicyConfig())
    assert not latency.is_known
    assert latency.seconds(4) == 0.0


def test_answers_of_one_length_are_taken_to_grow_with_it():
    latency = DraftLatency(PolicyConfig())
    for _ in range(10):
        latency.observe(4, 0.02)
    assert latency.seconds(4) == pytest.approx(0.02)
    assert latency.seconds(8) == pytest.approx(0.04)


def test_answers_of_several_lengths_tell_the_delay_from_the_steps():
    latency, chance = DraftLatency(PolicyConfig()), random.Random(1)
    for _ in range(200):
        count = chance.randrange(1, 9)
        latency.observe(count, (0.01 + 0.005 * count) * chance.uniform(0.95, 1.05))
    assert latency.seconds(1) == pytest.approx(0.015, rel=0.1)
    assert latency.seconds(8) == pytest.approx(0.05, rel=0.1)


def test_a_draft_that_has_become_slower_is_noticed():
    latency = DraftLatency(PolicyConfig())
    for delay in (0.01, 0.05):
        for count in (2, 4, 6) * 50:
            latency.observe(count, delay + 0.001 * count)
    assert latency.seconds(4) == pytest.approx(0.054, rel=0.05)


def test_longer_runs_never_take_less():
    latency = DraftLatency(PolicyConfig())
    for count, seconds in [(1, 0.05), (8, 0.01)] * 20:
        latency.observe(count, seconds)
    assert 0 < latency.seconds(1) <= latency.seconds(8)


def test_until_it_was_measured_each_further_sequence_is_taken_to_cost_something():
    latency = DraftLatency(PolicyConfig())
    for count in (1, 4, 2, 5) * 4:
        latency.observe(count, 0.01 + 0.005 * count)
    assert latency.slowdown(1) == 1.0
    assert 1.1 < latency.slowdown(4) < latency.slowdown(8)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.3])
def test_what_further_sequences_cost_is_learned_and_what_one_takes_is_not_forgotten(share: float):
    latency, chance = DraftLatency(PolicyConfig()), random.Random(1)
    for _ in range(200):
        count, num_sequences = chance.randrange(1, 9), chance.choice([1, 4, 8])
        seconds = (0.01 + 0.005 * count) * (1 + share * (num_sequences - 1))
        latency.observe(count, seconds * chance.uniform(0.95, 1.05), num_sequences=num_sequences)
    assert latency.slowdown(8) == pytest.approx(1 + 7 * share, rel=0.15)
    assert latency.seconds(4) == pytest.approx(0.03, rel=0.1)


def test_a_draft_that_was_only_ever_asked_for_many_is_known_for_as_many():
    latency = DraftLatency(PolicyConfig())
    for count in (1, 4, 2, 5) * 20:
        latency.observe(count, 3 * (0.01 + 0.005 * count), num_sequences=8)
    assert latency.seconds(4) * latency.slowdown(8) == pytest.approx(0.09, rel=0.05)
