"""Rotary embeddings: a checkpoint's rope settings, resolved to inverse frequencies."""

import math

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import Rope
from services.engine.files.json_fields import JsonFields

_DEFAULT_THETA = 10_000.0
_GEMMA3_GLOBAL_THETA = 1_000_000.0
_Frequencies = NDArray[np.float32]


def read_rope(config: JsonFields, head_dim: int) -> Rope:
    """Read `rope_parameters` (transformers 5) or `rope_theta` with `rope_scaling` (before) as one rotary table.

    Raises CheckpointError for a rope type that is not supported.
    """
    return _read_table(_read_settings(config), config, head_dim, "rope_theta", _DEFAULT_THETA)


def read_global_and_local_ropes(config: JsonFields, head_dim: int) -> tuple[Rope, Rope]:
    """Read Gemma 3's two tables: that of the layers which see the whole context, and that of those with a window."""
    both = config.nested("rope_parameters")
    if both is None:
        full, sliding = config.nested("rope_scaling") or config.empty("rope_scaling"), config.empty("rope_parameters")
    elif "rope_scaling" in config:
        raise config.error("rope_scaling", "must not be given beside rope_parameters")
    else:
        full, sliding = both.required("full_attention"), both.required("sliding_attention")
    return (
        _read_table(full, config, head_dim, "rope_theta", _GEMMA3_GLOBAL_THETA),
        _read_table(sliding, config, head_dim, "rope_local_base_freq", _DEFAULT_THETA),
    )


def read_longrope(config: JsonFields, head_dim: int, context_length: int) -> Rope:
    """Read Phi-3's table, whose type is default or longrope (arXiv 2402.13753); it may cover a part of each head.

    Which of longrope's two sets of factors applies depends on the context that is served, and on it alone.
    transformers goes by the length of the present text, and so changes what it has computed when that grows.
    """
    settings = _read_settings(config)
    rotary_dim = _read_rotary_dim(settings, config, head_dim)
    plain = _plain_frequencies(_read_theta(settings, config, "rope_theta", _DEFAULT_THETA), rotary_dim)
    if settings.choice(_type_field(settings), ("default", "longrope", "su"), "default") == "default":
        return _rope(plain)
    original = config.integer("original_max_position_embeddings", minimum=2)
    short, long = (settings.numbers(name, rotary_dim // 2) for name in ("short_factor", "long_factor"))
    stretch = settings.number("factor", config.integer("max_position_embeddings") / original)
    scale = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0
    factors = np.array(long if context_length > original else short, dtype=np.float32)
    return _rope(plain / factors, settings.number("attention_factor", scale))


def _read_settings(config: JsonFields) -> JsonFields:
    return config.nested("rope_scaling") or config.nested("rope_parameters") or config.empty("rope_parameters")


def _read_theta(settings: JsonFields, config: JsonFields, field: str, default: float) -> float:
    return settings.number("rope_theta", config.number(field, default))


def _read_table(settings: JsonFields, config: JsonFields, head_dim: int, theta_field: str, theta: float) -> Rope:
    for fields in (settings, config):
        if fields.number("partial_rotary_factor", 1.0) != 1.0:
            raise fields.error("partial_rotary_factor", "only 1.0 is supported")
    plain = _plain_frequencies(_read_theta(settings, config, theta_field, theta), head_dim)
    match settings.choice(_type_field(settings), ("default", "linear", "llama3"), "default"):
        case "linear":
            return _rope(plain / np.float32(settings.number("factor")))
        case "llama3":
            return _rope(_llama3(plain, settings, config))
        case _:
            return _rope(plain)


def _read_rotary_dim(settings: JsonFields, config: JsonFields, head_dim: int) -> int:
    """Read how many leading dimensions of a head turn."""
    factor = settings.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    rotary_dim = int(head_dim * factor)
    if factor > 1.0 or rotary_dim < 2 or rotary_dim % 2:
        holder = settings if "partial_rotary_factor" in settings else config
        raise holder.error(
            "partial_rotary_factor",
            f"must be at most 1 and leave an even part of head_dim {head_dim}, is {factor}",
        )
    return rotary_dim


def _type_field(settings: JsonFields) -> str:
    return "type" if "type" in settings and "rope_type" not in settings else "rope_type"


def _rope(frequencies: _Frequencies, scale: float = 1.0) -> Rope:
    return Rope(frequencies=tuple(frequencies.tolist()), scale=scale)


def _plain_frequencies(theta: float, rotary_dim: int) -> _Frequencies:
    """Return θ^(-2i / d) (arXiv 2104.09864).

    Powers are taken in float64 and rounded once: a float32 power differs in its last bit from machine to machine,
    and these numbers are part of every output.
    """
    exponents = np.arange(0, rotary_dim, 2, dtype=np.float32) / np.float32(rotary_dim)
    return np.array([1.0 / math.pow(theta, exponent) for exponent in exponents.tolist()], dtype=np.float32)


def _llama3(frequencies: _Frequencies, settings: JsonFields, config: JsonFields) -> _Frequencies:
    """Stretch low frequencies, keep high ones, blend between (Llama 3.1, `apply_scaling` of its reference code)."""
    factor = np.float32(settings.number("factor"))
    low, high = settings.number("low_freq_factor"), settings.number("high_freq_factor")
    if high <= low:
        raise settings.error("high_freq_factor", f"must be above low_freq_factor {low}, is {high}")
    in_settings = settings.integer("original_max_position_embeddings", config.integer("max_position_embeddings"))
    original = config.integer("original_max_position_embeddings", in_settings)
    wavelengths = np.float32(2 * np.pi) / frequencies
    blend = (np.float32(original) / wavelengths - np.float32(low)) / np.float32(high - low)
    blended = (np.float32(1.0) - blend) * frequencies / factor + blend * frequencies
    stretched = np.where(wavelengths > original / low, frequencies / factor, blended)
    return np.where(wavelengths < original / high, frequencies, stretched)
