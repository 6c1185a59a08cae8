"""Penalties, bias, masks and truncation; and the reported distribution."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native.testing import gumbel_noise
from tests.native.harness.sampling_reference import (
    Settings,
    draw_one,
    log_probabilities,
    log_softmax,
    masses_of,
    processed_logits,
    random_logits,
    reported_logprobs,
    sample,
    truncate,
)

INFINITY = float("inf")


PENALTIES = {
    "none": Settings(),
    "repetition": Settings(repetition_penalty=1.3),
    "repetition below 1": Settings(repetition_penalty=0.7),
    "frequency": Settings(frequency_penalty=0.4),
    "presence": Settings(presence_penalty=-0.9),
    "all": Settings(repetition_penalty=1.2, frequency_penalty=0.25, presence_penalty=0.5),
    "bias": Settings(logit_bias=((3, 2.5), (9, -4.0), (11, -INFINITY))),
    "bias after penalties": Settings(repetition_penalty=2.0, logit_bias=((5, 2.5), (6, -1.0))),
    "min tokens": Settings(min_tokens=8, stop_ids=(2, 5), logit_bias=((2, 30.0),)),
    "min tokens reached": Settings(min_tokens=7, stop_ids=(2, 5)),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_bias_and_mask_give_the_processed_logits(name):
    prompt, generated, vocab = [4, 4, 5, 6], [5, 7, 7, 7, 8, 4, 5], 40
    settings = replace(PENALTIES[name], temperature=0.0, logprobs=True, num_candidates=vocab)
    logits = random_logits(1, vocab)[0]
    samples = draw_one(logits, settings, prompt, generated)
    processed = processed_logits(logits, settings, prompt, generated)
    assert samples.token_ids[0] == processed.argmax()
    assert [candidate[0] for candidate in samples.candidates(0)] == sorted(
        np.flatnonzero(np.isfinite(processed)), key=lambda token_id: (-processed[token_id], token_id)
    )
    assert np.allclose(reported_logprobs(samples, 0, vocab), log_softmax(processed), rtol=0, atol=2e-6)
    raw = {token_id: logprob for token_id, logprob, _ in samples.candidates(0)}
    assert np.allclose(list(raw.values()), log_softmax(logits)[list(raw)], rtol=0, atol=2e-6)
    assert samples.raw_logprobs[0] == np.float32(raw[int(samples.token_ids[0])])


def test_min_tokens_counts_generated_tokens_only():
    logits = np.zeros(10, np.float32)
    logits[3] = 20
    settings = Settings(temperature=0.0, min_tokens=2, stop_ids=(3,))
    assert draw_one(logits, settings, [1, 1, 1]).token_ids[0] == 0
    assert draw_one(logits, settings, [], [1]).token_ids[0] == 0
    assert draw_one(logits, settings, [], [1, 1]).token_ids[0] == 3


TRUNCATIONS = {
    "top_k 1": Settings(top_k=1),
    "top_k": Settings(top_k=40),
    "top_k beyond the vocabulary": Settings(top_k=10**12),
    "top_p": Settings(top_p=0.9),
    "top_p nearly 0": Settings(top_p=1e-9),
    "top_p nearly 1": Settings(top_p=0.999_999),
    "min_p": Settings(min_p=0.05),
    "min_p 1": Settings(min_p=1.0),
    "min_p nearly 0": Settings(min_p=1e-12),
    "top_k then top_p": Settings(top_k=30, top_p=0.7),
    "top_p then min_p": Settings(top_p=0.9, min_p=0.02),
    "all": Settings(temperature=1.4, top_k=50, top_p=0.95, min_p=0.01),
    "hot": Settings(temperature=3.0, top_p=0.99),
    "cold": Settings(temperature=0.2, top_p=0.99),
}


@pytest.mark.parametrize("name", TRUNCATIONS)
@pytest.mark.parametrize("vocab", [7, 300, 9000])
def test_truncation_matches_its_definition(name, vocab):
    settings = replace(TRUNCATIONS[name], logprobs=True, num_candidates=vocab)
    logits = random_logits(6, vocab, seed=vocab)
    logits[0] = np.round(logits[0])  # many ties
    logits[1, ::3] = -np.inf
    logits[2] = 0
    samples = sample(logits, [replace(settings, seed=row).state() for row in range(6)])
    for row in range(6):
        expected = log_probabilities(logits[row], settings)
        logprobs = reported_logprobs(samples, row, vocab)
        assert np.array_equal(np.isfinite(logprobs), np.isfinite(expected))
        kept = np.isfinite(expected)
        assert np.allclose(logprobs[kept], expected[kept], rtol=0, atol=4e-6)
        values = truncate(logits[row] / np.float32(settings.temperature), settings)
        assert samples.token_ids[row] == np.argmax(values + gumbel_noise(row, 0, 0, vocab))
        assert samples.logprobs[row] == logprobs[samples.token_ids[row]]


def test_ties_are_truncated_by_lowest_id():
    logits = np.array([1, 2, 2, 1, 2, 1], np.float32)
    for settings, kept in [
        (Settings(top_k=2), [1, 2]),
        (Settings(top_k=4), [0, 1, 2, 4]),
        (Settings(top_p=0.3), [1, 2]),
        (Settings(top_p=0.8), [0, 1, 2, 4]),
        (Settings(min_p=0.5), [1, 2, 4]),
    ]:
        samples = draw_one(logits, replace(settings, num_candidates=6))
        assert np.flatnonzero(np.isfinite(reported_logprobs(samples, 0, 6))).tolist() == kept


def test_a_nucleus_is_as_large_as_the_sum_of_masses_says():
    """Any number of tokens too light for a mass is nothing; the least lack of a mass takes another token."""
    logits = np.array([0.0, -1.0, *[-30.0] * 10_000], np.float32)
    heavy = float(masses_of(logits[:1])[0] / masses_of(logits).sum())
    for top_p, kept in [(heavy, 1), (heavy + 2.0**-45, 2), (1 - 2.0**-53, 2)]:
        samples = draw_one(logits, Settings(top_p=top_p, num_candidates=4))
        assert np.isfinite(reported_logprobs(samples, 0, len(logits))).sum() == kept


def test_greedy_reports_the_logits_at_temperature_1_untruncated():
    logits = random_logits(1, 100)[0]
    settings = Settings(temperature=0.0, top_k=3, top_p=0.5, min_p=0.9, logprobs=True, num_candidates=100)
    samples = draw_one(logits, settings)
    assert np.allclose(reported_logprobs(samples, 0, 100), log_softmax(logits), rtol=0, atol=2e-6)
    assert samples.logprobs[0] == samples.raw_logprobs[0]


@pytest.mark.parametrize("vocab", [1, 7, 8, 9, 255, 257, 152_000])
def test_raw_logprobs_are_the_log_softmax_of_the_logits(vocab):
    logits = random_logits(8, vocab)
    samples = sample(logits, [Settings(temperature=2.0, top_k=5, seed=row, logprobs=True).state() for row in range(8)])
    expected = [log_softmax(logits[row])[token_id] for row, token_id in enumerate(samples.token_ids)]
    assert np.allclose(samples.raw_logprobs, expected, rtol=2e-7, atol=1e-7)


def test_candidates_are_the_best_processed_logits():
    logits = random_logits(1, 1000)[0]
    logits[[10, 20, 30]] = 40
    samples = draw_one(logits, Settings(logit_bias=((20, 1.0), (30, -INFINITY)), top_k=1, num_candidates=4))
    candidates = samples.candidates(0)
    assert [token_id for token_id, _, _ in candidates[:2]] == [20, 10]
    assert len(candidates) == 4
    assert [logprob for _, _, logprob in candidates] == [0.0, -INFINITY, -INFINITY, -INFINITY]
    assert candidates[0][1] == candidates[1][1]


def test_nothing_is_reported_unasked():
    samples = draw_one(random_logits(1, 50)[0], Settings())
    assert np.isnan(samples.raw_logprobs[0])
    assert np.isnan(samples.logprobs[0])
    assert samples.candidates(0) == []
    with pytest.raises(IndexError):
        samples.candidates(1)


def test_logprobs_do_not_change_the_draw():
    logits = random_logits(50, 2000)
    settings = Settings(temperature=1.2, top_p=0.9)
    asked = replace(settings, logprobs=True, num_candidates=20)
    plain = sample(logits, [replace(settings, seed=row).state() for row in range(50)])
    told = sample(logits, [replace(asked, seed=row).state() for row in range(50)])
    assert np.array_equal(plain.token_ids, told.token_ids)
