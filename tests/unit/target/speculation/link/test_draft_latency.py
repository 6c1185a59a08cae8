"""DraftLatency: a delay, and a time for each prediction, from answers of several lengths."""

import random

import pytest

from services.target.speculation.link.draft_latency import DraftLatency
from services.target.speculation.policy.policy_config import PolicyConfig


def test_without_answers_the_latency_is_unknown():
    latency = DraftLatency(PolicyConfig())
    assert not latency.is_known
    assert latency.seconds(4) == 0.0


def test_answers_of_one_length_are_taken_to_grow_with_it():
    latency = DraftLatency(PolicyConfig())
    for _ in range(10):
        latency.observe(4, 0.02)
    assert latency.seconds(4) == pytest.approx(0.02)
    assert latency.seconds(8) == pytest.approx(0.04)


def test_answers_of_several_lengths_separate_delay_and_steps():
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


def test_each_further_sequence_costs_a_little_until_measured():
    latency = DraftLatency(PolicyConfig())
    for count in (1, 4, 2, 5) * 4:
        latency.observe(count, 0.01 + 0.005 * count)
    assert latency.slowdown(1) == 1.0
    assert 1.1 < latency.slowdown(4) < latency.slowdown(8)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.3])
def test_the_cost_of_further_sequences_is_learned(share: float):
    latency, chance = DraftLatency(PolicyConfig()), random.Random(1)
    for _ in range(200):
        count, num_sequences = chance.randrange(1, 9), chance.choice([1, 4, 8])
        seconds = (0.01 + 0.005 * count) * (1 + share * (num_sequences - 1))
        latency.observe(count, seconds * chance.uniform(0.95, 1.05), num_sequences=num_sequences)
    assert latency.slowdown(8) == pytest.approx(1 + 7 * share, rel=0.15)
    assert latency.seconds(4) == pytest.approx(0.03, rel=0.1)


def test_a_draft_only_asked_for_many_is_measured_at_that_number():
    latency = DraftLatency(PolicyConfig())
    for count in (1, 4, 2, 5) * 20:
        latency.observe(count, 3 * (0.01 + 0.005 * count), num_sequences=8)
    assert latency.seconds(4) * latency.slowdown(8) == pytest.approx(0.09, rel=0.05)
