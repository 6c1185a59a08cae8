"""The samplers in float64, each from its definition, and the order that they have."""

from collections.abc import Callable

import numpy as np

from services.engine.decoder.native.testing import gumbel_noise
from tests.native.harness.sampling_reference import Doubles, Floats, Settings, log_softmax

NO_VALUE = -np.inf
_XTC_STREAM = 2


def probabilities(values: Doubles) -> Doubles:
    result: Doubles = np.exp(log_softmax(values))
    return result


def entropy(values: Doubles) -> float:
    """The entropy in nats."""
    kept = probabilities(values)[probabilities(values) > 0]
    return float(-(kept * np.log(kept)).sum())


def best_first(values: Doubles) -> np.ndarray:
    """The ids of what is left, ties by lowest id."""
    order = np.lexsort((np.arange(len(values)), -values))
    return order[np.isfinite(values[order])]


def only(values: Doubles, stays: np.ndarray) -> Doubles:
    """The values of tokens that stay: ids, or a flag for each."""
    result = np.full_like(values, NO_VALUE)
    result[stays] = values[stays]
    return result


def rounded(values: Doubles) -> Doubles:
    """As float32 has them: so they go from one sampler to the next."""
    return values.astype(np.float32).astype(np.float64)


def temperature(values: Doubles, settings: Settings) -> Doubles:
    """As llama.cpp's llama_sampler_temp_ext does."""
    divisor = settings.temperature
    if settings.dynatemp_range > 0:
        left = np.isfinite(values).sum()
        part = entropy(values) / np.log(left) if left > 1 else 0.0
        low, high = max(0.0, divisor - settings.dynatemp_range), divisor + settings.dynatemp_range
        divisor = low + (high - low) * min(part, 1.0) ** settings.dynatemp_exponent
    return (values.astype(np.float32) / np.float32(max(divisor, 1e-5))).astype(np.float64)


def smoothing(values: Doubles, settings: Settings) -> Doubles:
    """text-generation-webui: "quadratic sampling" with smoothing_factor and smoothing_curve."""
    k, s = (3 - settings.smoothing_curve) / 2, (settings.smoothing_curve - 1) / 2
    difference = values - values.max()
    kept = np.isfinite(values)
    result = np.full_like(values, NO_VALUE)
    d = difference[kept]
    result[kept] = -k * settings.smoothing_factor * d**2 + s * settings.smoothing_factor * d**3 + values.max()
    return rounded(result)


def top_n_sigma(values: Doubles, settings: Settings) -> Doubles:
    """arXiv 2411.07641, algorithm 1, with the population's deviation as llama.cpp has it."""
    sigma = values[np.isfinite(values)].std()
    return only(values, values >= values.max() - settings.top_n_sigma * sigma)


def top_k(values: Doubles, settings: Settings) -> Doubles:
    return only(values, best_first(values)[: settings.top_k])


def top_p(values: Doubles, settings: Settings) -> Doubles:
    order = best_first(values)
    through = np.cumsum(probabilities(values)[order])
    return only(values, order[: np.searchsorted(through, settings.top_p) + 1])


def min_p(values: Doubles, settings: Settings) -> Doubles:
    return only(values, np.exp(values - values.max()) >= settings.min_p)


def top_a(values: Doubles, settings: Settings) -> Doubles:
    """RWKV-LM: p >= a * max(p)^2."""
    share = probabilities(values)
    return only(values, share >= settings.top_a * share.max() ** 2)


def tail_free(values: Doubles, settings: Settings) -> Doubles:
    """llama.cpp until b3900: llama_sampler_tail_free."""
    order = best_first(values)
    bends = np.abs(np.diff(probabilities(values)[order], n=2))
    if len(order) <= 2 or bends.sum() == 0:
        return values
    through = np.cumsum(bends / bends.sum())
    beyond = np.flatnonzero(through > settings.tfs_z)
    last = max(int(beyond[0]), 1) if len(beyond) else len(order)
    return only(values, order[:last])


def typical(values: Doubles, settings: Settings) -> Doubles:
    """transformers: TypicalLogitsWarper, where what is as far away as the last one stays too."""
    normal = log_softmax(values)
    distance = np.abs(-normal - entropy(values))
    order = np.argsort(distance, kind="stable")
    through = np.cumsum(np.exp(normal[order]))
    last = min(int((through < settings.typical_p).sum()), len(values) - 1)
    return only(values, np.isfinite(values) & (distance <= distance[order[last]]))


def epsilon(values: Doubles, settings: Settings) -> Doubles:
    """As transformers' EpsilonLogitsWarper does."""
    share = probabilities(values)
    return only(values, (share >= settings.epsilon_cutoff) | (values == values.max()))


def eta(values: Doubles, settings: Settings) -> Doubles:
    """As transformers' EtaLogitsWarper does."""
    share, cutoff = probabilities(values), settings.eta_cutoff
    least = min(cutoff, np.sqrt(cutoff) * np.exp(-entropy(values)))
    return only(values, (share >= least) | (values == values.max()))


def xtc(values: Doubles, settings: Settings) -> Doubles:
    """llama.cpp: llama_sampler_xtc, once its chance has come."""
    order = best_first(values)
    reach = int((probabilities(values)[order] >= settings.xtc_threshold).sum())
    return only(values, order[max(reach - 1, 0) :])


def skew(values: Doubles, settings: Settings) -> Doubles:
    """exllamav2: a uniform number r becomes r ** exp(-skew) before it is looked up among the sorted candidates."""
    order = best_first(values)
    through = np.minimum(np.cumsum(probabilities(values)[order]), 1.0) ** np.exp(settings.skew)
    share = np.diff(through, prepend=0.0)
    result = np.full_like(values, NO_VALUE)
    with np.errstate(divide="ignore"):
        result[order] = np.log(share)
    return rounded(result)


STEPS: dict[str, Callable[[Doubles, Settings], Doubles]] = {
    "top_n_sigma": top_n_sigma,
    "smoothing": smoothing,
    "temperature": temperature,
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
    "top_a": top_a,
    "tail_free": tail_free,
    "typical": typical,
    "epsilon": epsilon,
    "eta": eta,
    "xtc": xtc,
    "skew": skew,
}
_NUMBERS = {
    "top_n_sigma": "top_n_sigma",
    "smoothing": "smoothing_factor",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "top_a": "top_a",
    "tail_free": "tfs_z",
    "typical": "typical_p",
    "epsilon": "epsilon_cutoff",
    "eta": "eta_cutoff",
    "xtc": "xtc_probability",
    "skew": "skew",
}


def xtc_chance(seed: int, position: int) -> float:
    """The number in (0, 1) that decides, of the sampler's own stream: what the noise of token 0 stands for."""
    noise = np.float64(gumbel_noise(seed, position, _XTC_STREAM, 1)[0])
    return float(-np.expm1(-np.exp(-noise)))


def is_on(step: str, settings: Settings, position: int) -> bool:
    """Whether a sampler changes anything there."""
    if step == "temperature":
        return settings.temperature != 1 or settings.dynatemp_range > 0
    if step == "xtc":
        return xtc_chance(settings.seed, position) < settings.xtc_probability
    return bool(getattr(settings, _NUMBERS[step]) != getattr(Settings(), _NUMBERS[step]))


def through_steps(logits: Floats, settings: Settings, position: int = 0) -> Doubles:
    """Log-probabilities after all samplers of unpenalised logits.  # [vocab]"""
    values = logits.astype(np.float64)
    for step in settings.samplers or STEPS:
        if is_on(step, settings, position):
            values = STEPS[step](values, settings)
    return log_softmax(values)
