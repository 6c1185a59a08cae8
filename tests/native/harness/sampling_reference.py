"""The sampler in plain numpy, written from its description, and what the sampler's tests share."""

from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Device, Sampler, Samples, SamplingState, isas
from services.engine.decoder.native.testing import make_logits

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """The arguments of a SamplingState, all neutral by default."""

    seed: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    top_n_sigma: float = 0.0
    smoothing_factor: float = 0.0
    smoothing_curve: float = 1.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_a: float = 0.0
    tfs_z: float = 1.0
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    skew: float = 0.0
    mirostat_mode: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    samplers: tuple[str, ...] = ()
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    penalty_last_n: int = 0
    penalty_decay: int = 0
    no_repeat_ngram_size: int = 0
    suppressed_ids: tuple[int, ...] = ()
    begin_suppressed_ids: tuple[int, ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 0
    dry_breaker_ids: tuple[int, ...] = ()
    logprobs: bool = False
    num_candidates: int = 0
    rank: bool = False
    entropy: bool = False
    guidance_scale: float = 1.0
    forced: bool = False

    def state(self, prompt: Seq[int] = (), generated: Seq[int] = ()) -> SamplingState:
        state = SamplingState(prompt=np.array(prompt, np.int32), **vars(self))
        state.commit(list(generated))
        return state


EVERY_STEP = Settings(
    temperature=1.3,
    top_k=60,
    top_p=0.97,
    min_p=0.001,
    repetition_penalty=1.3,
    frequency_penalty=0.2,
    presence_penalty=0.3,
    logit_bias=((4, 1.0), (2, 3.0)),
    min_tokens=6,
    stop_ids=(2, 9),
    logprobs=True,
    num_candidates=8,
    rank=True,
    entropy=True,
)


def sample(
    logits: Floats,
    states: Seq[SamplingState],
    predictions: Seq[Seq[int]] | None = None,
    *,
    threads: int = 1,
    device: Device | None = None,
) -> Samples:
    """The samples of the rows of `logits`, without predictions unless given.  # logits: [rows, vocab]"""
    device = device or Device.cpu(isas()[-1], threads)
    return Sampler(device).sample(make_logits(device, logits), states, predictions or [[] for _ in states])


def draw_one(logits: Floats, settings: Settings, prompt: Seq[int] = (), generated: Seq[int] = ()) -> Samples:
    return sample(logits[np.newaxis], [settings.state(prompt, generated)])


def random_logits(rows: int, vocab: int, *, scale: float = 3.0, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal((rows, vocab)) * scale).astype(np.float32)


def reported_logprobs(samples: Samples, row: int, vocab: int) -> Floats:
    """Processed log-probabilities by token id, minus infinity where there is no candidate.  # [vocab]"""
    result = np.full(vocab, -np.inf, np.float32)
    for token_id, _, logprob in samples.candidates(row):
        result[token_id] = logprob
    return result


def record_of(samples: Samples, row: int) -> tuple[object, ...]:
    """Everything reported of a row, as bits."""
    figures = [samples.raw_logprobs, samples.logprobs, samples.entropies]
    return (
        int(samples.token_ids[row]),
        int(samples.status[row]),
        int(samples.ranks[row]),
        *(array[row : row + 1].tobytes() for array in figures),
        np.array(samples.candidates(row)).tobytes(),
    )


def processed_logits(logits: Floats, settings: Settings, prompt: Seq[int], generated: Seq[int]) -> Floats:
    """The logits after penalties, bias and mask, in float32.  # [vocab]"""
    result = logits.copy()
    counts = Counter(generated)
    repetition = np.float32(settings.repetition_penalty)
    for token_id in {*prompt, *generated}:
        value = result[token_id]
        value = value / repetition if value > 0 else value * repetition
        value = value - np.float32(settings.frequency_penalty) * np.float32(counts[token_id])
        result[token_id] = value - np.float32(settings.presence_penalty) if counts[token_id] else value
    for token_id, bias in settings.logit_bias:
        result[token_id] += np.float32(bias)
    if len(generated) < settings.min_tokens:
        result[list(settings.stop_ids)] = -np.inf
    return result


def log_softmax(values: NDArray[np.floating]) -> Doubles:
    """In float64.  # [vocab]"""
    shifted: Doubles = values.astype(np.float64) - values.max()
    result: Doubles = shifted - np.log(np.exp(shifted).sum())
    return result


def rank_of(token_id: int, logits: Floats) -> int:
    """The place of a token in the order by logit, ties by lowest id, from 1."""
    order = np.lexsort((np.arange(len(logits)), -logits.astype(np.float64)))
    return int(np.flatnonzero(order == token_id)[0]) + 1


def entropy_of(logits: Floats) -> float:
    """Of the softmax, in nats and float64; 0 log 0 is 0."""
    logprobs = log_softmax(logits)
    kept = np.exp(logprobs) > 0
    return float(-(np.exp(logprobs[kept]) * logprobs[kept]).sum())


def masses_of(values: Floats) -> NDArray[np.int64]:
    """Probabilities as integers in units of 2**-42 of the greatest.  # [vocab]"""
    weights = np.exp(values.astype(np.float64) - np.float64(values.max()))
    return np.rint(weights * 2.0**42).astype(np.int64)


def truncate(values: Floats, settings: Settings) -> Floats:
    """What top-k, top-p and min-p leave of the values, the rest at minus infinity.  # [vocab]"""
    order = np.lexsort((np.arange(len(values)), -values.astype(np.float64)))
    order = order[np.isfinite(values[order])]
    if settings.top_k:
        order = order[: settings.top_k]
    if settings.top_p < 1:
        masses = np.cumsum(masses_of(values[order]))
        order = order[: np.searchsorted(masses, np.ceil(settings.top_p * float(masses[-1]))) + 1]
    ratio = np.exp(values[order].astype(np.float64) - np.float64(values[order[0]]))
    order = order[ratio >= settings.min_p]
    result = np.full_like(values, -np.inf)
    result[order] = values[order]
    return result


def log_probabilities(logits: Floats, settings: Settings, prompt: Seq[int] = (), generated: Seq[int] = ()) -> Doubles:
    """Of the distribution that a token is drawn from.  # [vocab]"""
    processed = processed_logits(logits, settings, prompt, generated)
    if settings.temperature == 0:
        return log_softmax(processed)
    return log_softmax(truncate(processed / np.float32(settings.temperature), settings))
