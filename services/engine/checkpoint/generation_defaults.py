"""GenerationDefaults: the sampling settings that a checkpoint recommends."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from services.engine.checkpoint.token_rules import RULE_FIELDS
from services.engine.files.json_fields import LARGEST_NUMBER, LEAST_NUMBER, JsonFields, is_number, shown
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingNumber

logger = logging.getLogger(__name__)

_RECOMMENDED = {number.name: number for number in SAMPLING_NUMBERS if number.is_recommended}
_FOR_GREEDY = ["repetition_penalty", "no_repeat_ngram_size"]  # the others have no effect without sampling
_CARRIED_OUT = {"do_sample", "eos_token_id", *_RECOMMENDED, *RULE_FIELDS}
_HARMLESS = {"_from_model_config", "bos_token_id", "pad_token_id", "transformers_version", "use_cache", "cache_config"}
_OFF_AT_1 = {
    "encoder_repetition_penalty",
    "guidance_scale",
    "length_penalty",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "top_h",
}


GenerationDefaults = Mapping[str, float]
"""The numbers of SamplingParams that generation_config.json recommends, by name."""


def read_generation_defaults(fields: JsonFields) -> GenerationDefaults:
    """Read generation_config.json; `do_sample` false means temperature 0, true without a temperature means 1.

    Raises CheckpointError naming a field that is out of its range.
    """
    if not fields.flag("do_sample", True):
        return _read(fields, _FOR_GREEDY) | {"temperature": 0.0}
    temperature = {"temperature": 1.0} if "do_sample" in fields else {}
    return temperature | _read(fields, _RECOMMENDED)


def warn_of_ignored_settings(generation: JsonFields) -> None:
    """Log one line that names the settings of generation_config.json that are not implemented."""
    others = [name for name in generation if name not in _CARRIED_OUT | _HARMLESS]
    if lost := [f"{name} {shown(generation.raw(name))}" for name in others if not _is_off(name, generation.raw(name))]:
        logger.warning("%s: settings that are not supported: %s", generation.where, ", ".join(lost))


def _is_off(name: str, value: object) -> bool:
    if name in _OFF_AT_1 and value == 1:
        return True
    return not value and not name.endswith("_token_id")


def read_eos_token_ids(generation: JsonFields, config: JsonFields, vocab_size: int) -> tuple[int, ...]:
    """Read the end-of-sequence ids of generation_config.json and of config.json, which may differ.

    Raises CheckpointError for ids outside of the vocabulary.
    """
    ends = {token_id for fields in (generation, config) for token_id in _read_ends(fields, vocab_size)}
    return tuple(sorted(ends))


def _read_ends(fields: JsonFields, vocab_size: int) -> Iterator[int]:
    value = fields.raw("eos_token_id")
    for token_id in value if isinstance(value, list) else [] if value is None else [value]:
        if not (type(token_id) is int and 0 <= token_id < vocab_size):
            raise fields.error("eos_token_id", f"must hold ids from 0 to {vocab_size - 1}, is {shown(value)}")
        yield token_id


def _read(fields: JsonFields, names: Iterable[str]) -> dict[str, float]:
    return {name: _read_number(fields, _RECOMMENDED[name]) for name in names if name in fields}


def _read_number(fields: JsonFields, number: SamplingNumber) -> float:
    """Read a number within its range; a count of -1 switches it off, like 0."""
    if number.kind is int:
        return max(0, fields.integer(number.name, minimum=-1))
    least = LEAST_NUMBER if number.allowed.excludes_minimum else number.allowed.minimum
    most = min(number.allowed.maximum, LARGEST_NUMBER)
    value = fields.raw(number.name)
    if not is_number(value) or not least <= value <= most:
        raise fields.error(number.name, f"must be a finite number from {least:g} to {most:g}, is {shown(value)}")
    return float(value)
