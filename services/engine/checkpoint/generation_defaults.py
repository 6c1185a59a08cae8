"""GenerationDefaults: the sampling settings that a checkpoint recommends."""

import logging
from dataclasses import dataclass

from services.engine.files.json_fields import LARGEST_NUMBER, LEAST_NUMBER, JsonFields, is_number, shown

logger = logging.getLogger(__name__)

_CARRIED_OUT = {"do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "eos_token_id"}
_HARMLESS = {"_from_model_config", "bos_token_id", "pad_token_id", "transformers_version", "use_cache", "cache_config"}
_OFF_AT_1 = {
    "encoder_repetition_penalty",
    "guidance_scale",
    "length_penalty",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "top_h",
    "typical_p",
}


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
    penalty = _number(fields, "repetition_penalty", least=LEAST_NUMBER)
    if not fields.flag("do_sample", True):
        return GenerationDefaults(temperature=0.0, repetition_penalty=penalty)
    temperature = _number(fields, "temperature")
    return GenerationDefaults(
        temperature=1.0 if temperature is None and "do_sample" in fields else temperature,
        top_k=max(0, fields.integer("top_k", minimum=-1)) if "top_k" in fields else None,
        top_p=_number(fields, "top_p", least=LEAST_NUMBER, most=1.0),
        min_p=_number(fields, "min_p", most=1.0),
        repetition_penalty=penalty,
    )


def warn_of_what_is_not_carried_out(generation: JsonFields) -> None:
    """Name the settings of generation_config.json that change nothing here, in one line of the log."""
    others = [name for name in generation if name not in _CARRIED_OUT | _HARMLESS]
    if lost := [f"{name} {shown(generation.raw(name))}" for name in others if not _is_off(name, generation.raw(name))]:
        logger.warning("%s: settings that are not carried out: %s", generation.where, ", ".join(lost))


def _is_off(name: str, value: object) -> bool:
    if name in _OFF_AT_1 and value == 1:
        return True
    return not value and not name.endswith("_token_id")


def read_eos_token_ids(generation: JsonFields, config: JsonFields, vocab_size: int) -> tuple[int, ...]:
    """Read the ids that end a generation: generation_config.json's, or config.json's where that names none."""
    fields = generation if "eos_token_id" in generation else config
    value = fields.raw("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(token_id) is int and 0 <= token_id < vocab_size for token_id in ids):
        raise fields.error("eos_token_id", f"must hold ids from 0 to {vocab_size - 1}, is {shown(value)}")
    return tuple(sorted(set(ids)))


def _number(fields: JsonFields, name: str, *, least: float = 0.0, most: float = LARGEST_NUMBER) -> float | None:
    """Read a number within a range, if there is one."""
    value = fields.raw(name)
    if value is None:
        return None
    if not is_number(value) or not least <= value <= most:
        raise fields.error(name, f"must be a finite number from {least:g} to {most:g}, is {shown(value)}")
    return float(value)
