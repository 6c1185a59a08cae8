"""Mirostat and adaptive-p in float64, each from its definition: a row's values, and the level after its token."""

from dataclasses import dataclass

import numpy as np

from tests.native.harness.sampling_reference import Doubles, Settings, log_softmax
from tests.native.harness.step_reference import best_first, only, probabilities, rounded


@dataclass(frozen=True)
class Step:
    """What one row comes to at a level."""

    values: Doubles  # that a token is drawn from
    judged: Doubles  # log-probabilities by which it is judged


def first_level(settings: Settings) -> float:
    return 2 * settings.mirostat_tau if settings.mirostat_mode else settings.adaptive_target


def step(values: Doubles, settings: Settings, level: float) -> Step:
    if not settings.mirostat_mode:
        return Step(adaptive_p(values, settings, level), log_softmax(values))
    kept = (mirostat_1 if settings.mirostat_mode == 1 else mirostat_2)(values, level)
    return Step(kept, log_softmax(kept))


def next_level(settings: Settings, level: float, logprob: float) -> float:
    """llama.cpp: the last lines of llama_sampler_mirostat_apply, and llama_sampler_adaptive_p_accept with its mean."""
    if settings.mirostat_mode:
        return level - settings.mirostat_eta * (-logprob / np.log(2) - settings.mirostat_tau)
    return settings.adaptive_decay * level + (1 - settings.adaptive_decay) * float(np.exp(logprob))


def mirostat_2(values: Doubles, level: float) -> Doubles:
    """The values that llama.cpp's llama_sampler_mirostat_v2_apply keeps."""
    return only(values, (-log_softmax(values) / np.log(2) <= level) | (values == values.max()))


def mirostat_1(values: Doubles, level: float) -> Doubles:
    """llama.cpp: llama_sampler_mirostat_apply, in float64."""
    order = best_first(values)
    best = log_softmax(values)[order[:100]]
    if len(best) < 2:
        return values
    ranks = np.log(np.arange(2, len(best) + 1) / np.arange(1, len(best)))
    exponent = (ranks * -np.diff(best)).sum() / (ranks**2).sum()
    size, beyond = float(len(values)), exponent - 1
    with np.errstate(all="ignore"):
        ratio = beyond / -np.expm1(-beyond * np.log(size)) if beyond else 1 / np.log(size)
        count = np.exp((np.log(ratio) + level * np.log(2)) / exponent)
    return values if not count < size else only(values, order[: max(int(count), 1)])


def adaptive_p(values: Doubles, settings: Settings, level: float) -> Doubles:
    """The values that llama.cpp's llama_sampler_adaptive_p_apply gives."""
    wanted = min(max(2 * settings.adaptive_target - level, 0.0), 1.0)
    distance = np.abs(probabilities(values) - wanted) / 0.3
    return rounded(np.where(np.isfinite(values), 5 - 10 * distance**2 / (1 + distance), -np.inf))
