"""Sampled tokens follow their distribution, and two models draw alike."""

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy  # whose modules load when they are used
from numpy.typing import NDArray

from services.engine.decoder.native.testing import gumbel_noise
from tests.native.harness.sampling_reference import Settings, log_probabilities, log_softmax, sample

VOCAB, DRAWS, SEEDS = 24, 20_000, 3000
DRAWS_IN_NUMPY = 12_000
LOGITS = (np.random.default_rng(5).standard_normal(VOCAB) * 2).astype(np.float32)
PROMPT, GENERATED = [1, 2, 3, 3], [3, 4, 4, 4, 5]
TOKEN_STREAM = 0

Ids = NDArray[np.int32]

SETTINGS = {
    "plain": Settings(),
    "cool": Settings(temperature=0.7),
    "hot": Settings(temperature=1.9),
    "top_k": Settings(top_k=5),
    "top_p": Settings(top_p=0.8),
    "min_p": Settings(min_p=0.1),
    "penalties": Settings(repetition_penalty=1.4, frequency_penalty=0.3, presence_penalty=0.5),
    "bias": Settings(logit_bias=((0, 3.0), (7, -2.0), (8, float("-inf")))),
    "all": Settings(
        temperature=1.3,
        top_k=12,
        top_p=0.95,
        min_p=0.02,
        repetition_penalty=0.8,
        frequency_penalty=-0.2,
        presence_penalty=0.4,
        logit_bias=((6, 1.5),),
        min_tokens=10,
        stop_ids=(int(LOGITS.argmax()),),
    ),
}


def p_value(token_ids: Ids, probabilities: NDArray[np.float64]) -> float:
    """Pearson's chi-square test of the ids against the distribution, rare tokens taken together.

    0 where a token occurs whose probability is 0.
    """
    counts = np.bincount(token_ids, minlength=len(probabilities))
    if counts[probabilities == 0].any():
        return 0.0
    expected = probabilities * len(token_ids)
    rare = expected < 10
    observed = [*counts[~rare], counts[rare].sum()]
    wanted = [*expected[~rare], expected[rare].sum()]
    if wanted[-1] < 10:
        observed[-2:], wanted[-2:] = [sum(observed[-2:])], [sum(wanted[-2:])]
    return float(scipy.stats.chisquare(observed, np.array(wanted) / sum(wanted) * len(token_ids)).pvalue)


@functools.cache
def draw_over_seeds(settings: Settings) -> Ids:
    """One draw at the same position with each of many seeds."""
    token_ids = []
    for first in range(0, SEEDS, 1000):
        states = [replace(settings, seed=seed).state(PROMPT, GENERATED) for seed in range(first, first + 1000)]
        token_ids.append(sample(np.tile(LOGITS, (1000, 1)), states).token_ids)
    return np.concatenate(token_ids)


def draw_over_positions(settings: Settings) -> Ids:
    """One draw at each of many positions with the same seed."""
    rows = np.tile(LOGITS, (DRAWS, 1))
    return sample(rows, [settings.state(PROMPT, GENERATED)], [[0] * (DRAWS - 1)]).token_ids


@pytest.mark.parametrize("name", SETTINGS)
def test_tokens_over_seeds_follow_the_distribution(name):
    probabilities = np.exp(log_probabilities(LOGITS, SETTINGS[name], PROMPT, GENERATED))
    assert p_value(draw_over_seeds(SETTINGS[name]), probabilities) > 1e-3


@pytest.mark.parametrize("name", ["plain", "cool", "hot", "top_k", "top_p", "min_p", "bias"])
def test_tokens_over_positions_follow_the_distribution(name):
    probabilities = np.exp(log_probabilities(LOGITS, SETTINGS[name]))
    assert p_value(draw_over_positions(SETTINGS[name]), probabilities) > 1e-3


@pytest.mark.parametrize(("name", "other"), [("plain", "cool"), ("top_p", "plain"), ("penalties", "plain")])
def test_the_test_rejects_a_sampler_that_forgets_a_parameter(name, other):
    probabilities = np.exp(log_probabilities(LOGITS, SETTINGS[name], PROMPT, GENERATED))
    assert p_value(draw_over_seeds(SETTINGS[other]), probabilities) < 1e-9


def noise_at(position: int) -> NDArray[np.float32]:
    return gumbel_noise(0, position, TOKEN_STREAM, VOCAB)


def one_noise_for_four_tokens(position: int) -> NDArray[np.float32]:
    return np.repeat(gumbel_noise(0, position, TOKEN_STREAM, VOCAB // 4), 4)


NoiseOf = Callable[[int], NDArray[np.float32]]

WRONG_NOISE: dict[str, NoiseOf] = {
    "no noise": lambda position: np.zeros(VOCAB, np.float32),
    "the same at every position": lambda position: noise_at(0),
    "the same for four tokens": one_noise_for_four_tokens,
    "positions in steps of 100": lambda position: noise_at(position // 100),
    "uniform": lambda position: np.exp(-np.exp(-noise_at(position))),
    "of half the size": lambda position: noise_at(position) / 2,
    "rounded to halves": lambda position: np.round(noise_at(position) * 2) / 2,
    "without its upper tail": lambda position: np.minimum(noise_at(position), 2),
}


def draw_with(noise_of: NoiseOf) -> Ids:
    """A sampler in numpy, with noise of any kind."""
    return np.array([np.argmax(LOGITS + noise_of(position)) for position in range(DRAWS_IN_NUMPY)])


def test_the_test_accepts_a_right_sampler_in_numpy():
    assert p_value(draw_with(noise_at), np.exp(log_softmax(LOGITS))) > 1e-3


@pytest.mark.parametrize("name", WRONG_NOISE)
def test_the_test_rejects_wrong_noise(name):
    assert p_value(draw_with(WRONG_NOISE[name]), np.exp(log_softmax(LOGITS))) < 1e-9


def test_draws_at_neighbouring_positions_are_independent():
    """Chi-square on the table of (token, next token), over the four most probable."""
    token_ids = draw_over_positions(Settings())
    common = np.argsort(-LOGITS)[:4]
    table = [[np.sum((token_ids[:-1] == a) & (token_ids[1:] == b)) for b in common] for a in common]
    assert scipy.stats.chi2_contingency(table).pvalue > 1e-3
    repeated = np.repeat(token_ids[::2], 2)
    table = [[np.sum((repeated[:-1] == a) & (repeated[1:] == b)) for b in common] for a in common]
    assert scipy.stats.chi2_contingency(table).pvalue < 1e-9


def peaked_logits(draft_noise: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits of a target and of a draft that errs by Gaussian noise.  # 2 × [rows, vocab]"""
    rng = np.random.default_rng(11)
    rows, vocab = 4000, 256
    target = rng.standard_normal((rows, vocab)) * 8
    return target.astype(np.float32), (target + draft_noise * rng.standard_normal(target.shape)).astype(np.float32)


@pytest.mark.parametrize("draft_noise", [0.3, 1.0, 1.5])
def test_target_and_draft_agree_nearly_as_often_as_is_possible(draft_noise):
    """No coupling beats 1 - TV; shared Gumbel noise reaches (1 - TV) / (1 + TV) (Daliri et al., arXiv 2408.07978)."""
    target, draft = peaked_logits(draft_noise)
    p, q = (np.exp([log_softmax(row) for row in logits]) for logits in (target, draft))
    best = 1 - np.abs(p - q).sum(axis=1) / 2
    state, predictions = Settings(seed=3).state(), [[0] * (len(target) - 1)]
    drawn = sample(target, [state], predictions).token_ids
    drafted = sample(draft, [state], predictions).token_ids
    agreement = np.mean(drawn == drafted)
    error = 4 * np.sqrt(agreement * (1 - agreement) / len(target))
    assert np.mean(best / (2 - best)) - error < agreement < best.mean() + error
    assert agreement > best.mean() - 0.03
    independent = sample(draft, [Settings(seed=4).state()], predictions).token_ids
    assert agreement > np.mean(drawn == independent) + 0.1
    assert agreement > np.mean(drawn == draft.argmax(axis=1)) + 0.06
