"""The scalings with which checkpoints extend their rotary frequencies to longer contexts."""

import math

import numpy as np
from numpy.typing import NDArray

from services.engine.files.json_fields import JsonFields

Frequencies = NDArray[np.float32]
"""Inverse frequencies of one table.  # [rotary_dim / 2]"""


def plain_frequencies(theta: float, rotary_dim: int) -> Frequencies:
    """Return θ^(-2i / d) (arXiv 2104.09864).  # [rotary_dim / 2]

    Powers are computed in float64 and rounded once: a float32 power may differ in its last bit between machines, and
    every output depends on these numbers.
    """
    exponents = np.arange(0, rotary_dim, 2, dtype=np.float32) / np.float32(rotary_dim)
    return np.array([1.0 / math.pow(theta, exponent) for exponent in exponents.tolist()], dtype=np.float32)


def dynamic(theta: float, rotary_dim: int, settings: JsonFields, stretch: float) -> Frequencies:
    """Increase θ by the ratio of the served to the original context (NTK-aware scaling).

    Raises CheckpointError for a bad field.
    """
    if rotary_dim < 4:
        raise settings.error("rope_type", "dynamic needs heads with at least 4 rotating dimensions")
    factor = settings.number("factor")
    raised = theta * (factor * stretch - (factor - 1)) ** (rotary_dim / (rotary_dim - 2))
    return plain_frequencies(raised, rotary_dim)


def llama3(frequencies: Frequencies, settings: JsonFields, original: int) -> Frequencies:
    """Scale low frequencies, keep high ones, blend between (Llama 3.1, `apply_scaling` of its reference code).

    Raises CheckpointError for a bad field.
    """
    factor = np.float32(settings.number("factor"))
    low, high = settings.number("low_freq_factor"), settings.number("high_freq_factor")
    if high <= low:
        raise settings.error("high_freq_factor", f"must be above low_freq_factor {low}, is {high}")
    wavelengths = np.float32(2 * np.pi) / frequencies
    blend = (np.float32(original) / wavelengths - np.float32(low)) / np.float32(high - low)
    blended = (np.float32(1.0) - blend) * frequencies / factor + blend * frequencies
    stretched = np.where(wavelengths > original / low, frequencies / factor, blended)
    return np.where(wavelengths < original / high, frequencies, stretched)


def longrope(
    frequencies: Frequencies, settings: JsonFields, original: int, stretch: float, *, is_long: bool
) -> tuple[Frequencies, float]:
    """Divide each frequency by its factor from the set for short or for long contexts (LongRoPE, arXiv 2402.13753).

    Returns the scale of cosine and sine too. Raises CheckpointError for a bad field.
    """
    if original < 2:
        raise settings.error("original_max_position_embeddings", f"must be at least 2 beside longrope, is {original}")
    short, long = (settings.numbers(name, len(frequencies)) for name in ("short_factor", "long_factor"))
    stretch = settings.number("factor", stretch)
    scale = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0
    factors = np.array(long if is_long else short, dtype=np.float32)
    return frequencies / factors, settings.number("attention_factor", scale)


def yarn(
    frequencies: Frequencies, theta: float, settings: JsonFields, original: int, stretch: float
) -> tuple[Frequencies, float]:
    """Scale frequencies that rotate seldom within the original context, keep those that rotate often, blend between
    (YaRN, arXiv 2309.00071).

    Returns the scale of cosine and sine too. Raises CheckpointError for a bad field.
    """
    if theta <= 1:
        raise settings.error("rope_theta", f"must be above 1 beside yarn, is {theta}")
    rotary_dim, factor = 2 * len(frequencies), settings.number("factor", stretch)
    low, high = (
        rotary_dim * math.log(original / (settings.number(field, default) * 2 * math.pi)) / (2 * math.log(theta))
        for field, default in (("beta_fast", 32.0), ("beta_slow", 1.0))
    )
    if settings.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    high += 0.001 if low == high else 0.0
    ramp = (np.arange(len(frequencies), dtype=np.float32) - np.float32(low)) / np.float32(high - low)
    kept = np.float32(1.0) - np.clip(ramp, 0, 1).astype(np.float32)
    stretched = frequencies / np.float32(factor) * (np.float32(1.0) - kept) + frequencies * kept
    return stretched.astype(np.float32), settings.number("attention_factor", _yarn_scale(settings, factor))


def _yarn_scale(settings: JsonFields, factor: float) -> float:
    if all(settings.raw(name) not in (None, 0) for name in ("mscale", "mscale_all_dim")):
        scale, of_all = (settings.number(name) for name in ("mscale", "mscale_all_dim"))
        return grown(factor, scale) / grown(factor, of_all)
    return grown(factor, 1.0)


def grown(factor: float, scale: float) -> float:
    """Return the scale of cosine and sine in a context that is `factor` times as long."""
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
