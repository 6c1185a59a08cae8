"""GenerationDefaults: the sampling settings that a checkpoint recommends."""

import math
from dataclasses import dataclass

from services.engine.json_fields import JsonFields, is_number


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """What generation_config.json asks for; None where it says nothing."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


def read_generation_defaults(fields: JsonFields) -> GenerationDefaults:
    """Read generation_config.json; `do_sample` false means temperature 0, true without a temperature means 1.

    Raises CheckpointError naming a field that is out of its range.
    """
    penalty = _number(fields, "repetition_penalty", above=0.0)
    if not fields.flag("do_sample", True):
        return GenerationDefaults(temperature=0.0, repetition_penalty=penalty)
    temperature = _number(fields, "temperature")
    return GenerationDefaults(
        temperature=1.0 if temperature is None and "do_sample" in fields else temperature,
        top_k=max(0, fields.integer("top_k", minimum=-1)) if "top_k" in fields else None,
        top_p=_number(fields, "top_p", above=0.0, most=1.0),
        min_p=_number(fields, "min_p", most=1.0),
        repetition_penalty=penalty,
    )


def read_eos_token_ids(generation: JsonFields, config: JsonFields, vocab_size: int) -> tuple[int, ...]:
    """Read the ids that end a generation: generation_config.json's, or config.json's where that names none."""
    fields = generation if "eos_token_id" in generation else config
    value = fields.raw("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(token_id) is int and 0 <= token_id < vocab_size for token_id in ids):
        raise fields.error("eos_token_id", f"must hold ids from 0 to {vocab_size - 1}, is {value!r}")
    return tuple(sorted(set(ids)))


def _number(fields: JsonFields, name: str, *, above: float | None = None, most: float = math.inf) -> float | None:
    """Read a number of at least 0, above `above` where given, and at most `most`."""
    value = fields.raw(name)
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= most or value == above:
        least = "0" if above is None else "above 0"
        raise fields.error(name, f"must be a finite number from {least} to {most}, is {value!r}")
    return float(value)
