"""Rotary embeddings: a checkpoint's rope settings, resolved to inverse frequencies."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from services.engine.checkpoint.architectures import rope_scaling
from services.engine.checkpoint.architectures.rope_scaling import Frequencies, plain_frequencies
from services.engine.checkpoint.model_config import Rope
from services.engine.files.json_fields import JsonFields

NO_ROPE = Rope(frequencies=(0.0,))
"""A table that turns nothing: an angle of 0 is exact."""

_DEFAULT_THETA = 10_000.0
_TYPES = ("default", "linear", "dynamic", "yarn", "llama3", "longrope", "su")
_STRETCHING = {"dynamic", "yarn"}
_LONGEST = 2**31 - 1


def read_rope(
    config: JsonFields,
    head_dim: int,
    context_length: int,
    *,
    partial: float | None = None,
    types: Collection[str] = _TYPES,
) -> Rope:
    """Read `rope_parameters` (transformers 5) or `rope_theta` with `rope_scaling` (before) as one rotary table.

    `partial` is which part of a head turns where no field says it; None where it is always the whole. What a type
    chooses by the length of the present text in transformers goes by the context that is served, and by it alone, so
    that it is never changed behind what has been computed. Raises CheckpointError for a rope type that is not
    supported.
    """
    return _Table(_read_settings(config), config, head_dim, context_length, partial, types).read()


def read_global_and_local_ropes(
    config: JsonFields, head_dim: int, context_length: int, *, local_theta: str
) -> tuple[Rope, Rope]:
    """Read two tables: that of the layers which see the whole context, and that of those with a window.

    `local_theta` is the field with the latter's, in configurations that were written before transformers 5.
    """
    both = config.nested("rope_parameters")
    if both is None:
        full, sliding = config.nested("rope_scaling") or config.empty("rope_scaling"), config.empty("rope_parameters")
    elif "rope_scaling" in config:
        raise config.error("rope_scaling", "must not be given beside rope_parameters")
    else:
        full, sliding = both.required("full_attention"), both.required("sliding_attention")
    tables = (
        _Table(full, config, head_dim, context_length),
        _Table(sliding, config, head_dim, context_length, theta_field=local_theta),
    )
    return tables[0].read(), tables[1].read()


def longest_context(config: JsonFields) -> int:
    """Return how many positions can be asked for: with some types more than max_position_embeddings."""
    most = config.integer("max_position_embeddings")
    settings = _read_settings(config)
    settings = settings.nested("full_attention") or settings
    kind = settings.raw(_type_field(settings))
    if not isinstance(kind, str) or kind not in _STRETCHING:
        return most
    stretched = read_original_length(settings, config) * settings.number("factor", 1.0)
    return max(most, int(min(stretched, _LONGEST)))


def read_original_length(settings: JsonFields, config: JsonFields) -> int:
    """Read the context before a scaling, which is the checkpoint's where no field has it."""
    in_settings = settings.integer("original_max_position_embeddings", config.integer("max_position_embeddings"))
    return config.integer("original_max_position_embeddings", in_settings)


@dataclass(frozen=True, slots=True)
class _Table:
    """The fields that one table is read from; `settings` come before those of `config`."""

    settings: JsonFields
    config: JsonFields
    head_dim: int
    context_length: int
    partial: float | None = None
    types: Collection[str] = _TYPES
    theta_field: str = "rope_theta"

    def read(self) -> Rope:
        settings, rotary_dim, theta = self.settings, self._read_rotary_dim(), self._read_theta()
        plain = plain_frequencies(theta, rotary_dim)
        match settings.choice(_type_field(settings), self.types, "default"):
            case "linear":
                return _rope(plain / np.float32(settings.number("factor")))
            case "dynamic":
                most = self.config.integer("max_position_embeddings")
                stretch = max(1.0, self.context_length / most)
                return _rope(rope_scaling.dynamic(theta, rotary_dim, settings, stretch))
            case "yarn":
                return _rope(*rope_scaling.yarn(plain, theta, settings, self._read_original(), self._stretch()))
            case "llama3":
                return _rope(rope_scaling.llama3(plain, settings, self._read_original()))
            case "longrope" | "su":
                is_long = self.context_length > self._read_original()
                return _rope(
                    *rope_scaling.longrope(plain, settings, self._read_original(), self._stretch(), is_long=is_long)
                )
            case _:
                return _rope(plain)

    def _read_theta(self) -> float:
        return self.settings.number("rope_theta", self.config.number(self.theta_field, _DEFAULT_THETA))

    def _read_original(self) -> int:
        return read_original_length(self.settings, self.config)

    def _stretch(self) -> float:
        """How much longer the context has become, where no factor says so."""
        return self.config.integer("max_position_embeddings") / self._read_original()

    def _read_rotary_dim(self) -> int:
        """How many leading dimensions of a head turn."""
        default = 1.0 if self.partial is None else self.partial
        factor = self.settings.number("partial_rotary_factor", self.config.number("partial_rotary_factor", default))
        holder = self.settings if "partial_rotary_factor" in self.settings else self.config
        if self.partial is None and factor != 1.0:
            raise holder.error("partial_rotary_factor", "only 1.0 is supported")
        rotary_dim = int(self.head_dim * factor)
        if factor > 1.0 or rotary_dim < 2 or rotary_dim % 2:
            problem = f"must be at most 1 and leave an even part of head_dim {self.head_dim}, is {factor}"
            raise holder.error("partial_rotary_factor", problem)
        return rotary_dim


def _read_settings(config: JsonFields) -> JsonFields:
    return config.nested("rope_scaling") or config.nested("rope_parameters") or config.empty("rope_parameters")


def _type_field(settings: JsonFields) -> str:
    return "type" if "type" in settings and "rope_type" not in settings else "rope_type"


def _rope(frequencies: Frequencies, scale: float = 1.0) -> Rope:
    return Rope(frequencies=tuple(frequencies.tolist()), scale=scale)
