"""Rotary embeddings: a checkpoint's rope settings, resolved to inverse frequencies."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from services.engine.checkpoint.architectures import rope_scaling
from services.engine.checkpoint.architectures.rope_scaling import Frequencies, plain_frequencies
from services.engine.checkpoint.model_config import Rope
from services.engine.files.json_fields import JsonFields

NO_ROPE = Rope(frequencies=(0.0,))
"""A table without rotation: an angle of 0 is exact."""

_DEFAULT_THETA = 10_000.0
_TYPES = ("default", "linear", "dynamic", "yarn", "llama3", "longrope", "su")
_PROPORTIONAL = "proportional"
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

    `partial` is the part of a head that rotates if no field gives it; None: always the whole head. Where transformers
    chooses frequencies by the length of the current text, we choose them by the served context length only, so that
    they never change after keys were computed. Raises CheckpointError for a bad field or an unsupported rope type.
    """
    return _Table(_read_settings(config), config, head_dim, context_length, partial, types).read()


def read_global_and_local_ropes(
    config: JsonFields, head_dim: int, context_length: int, *, local_theta: str, global_head_dim: int | None = None
) -> tuple[Rope, Rope]:
    """Read two tables: one for the layers that attend to the whole context, and one for those with a window.

    `local_theta` is the field of the second table's θ in configurations from before transformers 5. With
    `global_head_dim` the first table is of heads of that size, and may turn a part of them by the frequencies of the
    whole. Raises CheckpointError for a bad field.
    """
    both = config.nested("rope_parameters")
    if both is None:
        full, sliding = config.nested("rope_scaling") or config.empty("rope_scaling"), config.empty("rope_parameters")
    elif "rope_scaling" in config:
        raise config.error("rope_scaling", "must not be given beside rope_parameters")
    else:
        full, sliding = both.required("full_attention"), both.required("sliding_attention")
    of_global = _TYPES if global_head_dim is None else (*_TYPES, _PROPORTIONAL)
    tables = (
        _Table(full, config, global_head_dim or head_dim, context_length, types=of_global),
        _Table(sliding, config, head_dim, context_length, theta_field=local_theta),
    )
    return tables[0].read(), tables[1].read()


def longest_context(config: JsonFields) -> int:
    """Return the largest context length that can be served: with some types more than max_position_embeddings."""
    most = config.integer("max_position_embeddings")
    settings = _read_settings(config)
    settings = settings.nested("full_attention") or settings
    kind = settings.raw(_type_field(settings))
    if not isinstance(kind, str) or kind not in _STRETCHING:
        return most
    stretched = read_original_length(settings, config) * settings.number("factor", 1.0)
    return max(most, int(min(stretched, _LONGEST)))


def read_score_scale(config: JsonFields) -> float:
    """Return by how much scores grow beside YaRN where DeepSeek says so (arXiv 2309.00071, section 3.4); else 1."""
    settings = _read_settings(config)
    if settings.raw(_type_field(settings)) != "yarn" or settings.raw("mscale_all_dim") in (None, 0):
        return 1.0
    stretch = config.integer("max_position_embeddings") / read_original_length(settings, config)
    return rope_scaling.grown(settings.number("factor", stretch), settings.number("mscale_all_dim")) ** 2


def read_original_length(settings: JsonFields, config: JsonFields) -> int:
    """Read the context length before the scaling; without a field it is max_position_embeddings."""
    in_settings = settings.integer("original_max_position_embeddings", config.integer("max_position_embeddings"))
    return config.integer("original_max_position_embeddings", in_settings)


@dataclass(frozen=True, slots=True)
class _Table:
    """The fields from which one table is read; `settings` take precedence over `config`."""

    settings: JsonFields
    config: JsonFields
    head_dim: int
    context_length: int
    partial: float | None = None
    types: Collection[str] = _TYPES
    theta_field: str = "rope_theta"

    def read(self) -> Rope:
        settings, theta = self.settings, self._read_theta()
        kind = settings.choice(_type_field(settings), self.types, "default")
        rotary_dim = self.head_dim if kind == _PROPORTIONAL else self._read_rotary_dim()
        plain = plain_frequencies(theta, rotary_dim)
        match kind:
            case "linear":
                plain = plain / np.float32(settings.number("factor"))
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
            case "proportional":
                plain = self._without_last(plain)
        return _rope(plain)

    def _without_last(self, frequencies: Frequencies) -> Frequencies:
        """Return the frequencies of a whole head with zeros for the last pairs, which do not turn."""
        part = self.settings.number("partial_rotary_factor", 1.0)
        if part > 1.0:
            raise self.settings.error("partial_rotary_factor", f"must be at most 1, is {part}")
        frequencies[int(part * self.head_dim // 2) :] = 0.0
        return frequencies / np.float32(self.settings.number("factor", 1.0))

    def _read_theta(self) -> float:
        return self.settings.number("rope_theta", self.config.number(self.theta_field, _DEFAULT_THETA))

    def _read_original(self) -> int:
        return read_original_length(self.settings, self.config)

    def _stretch(self) -> float:
        """Return by how much the context was extended; used if no factor is given."""
        return self.config.integer("max_position_embeddings") / self._read_original()

    def _read_rotary_dim(self) -> int:
        """Return how many leading dimensions of a head rotate."""
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
