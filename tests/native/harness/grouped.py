"""Random matrices of every kind that was given as integers in groups, and in every type of a GGUF file's blocks."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import PackedWeight


class GroupedKind(NamedTuple):
    """How such a matrix is held."""

    format: str  # "int8" or "int4"
    group: int  # inputs that share a scale
    block: int  # inputs that share the unit of their scales: as many, or several groups
    has_offsets: bool


KIND_OF_TYPE = {
    "Q4_0": GroupedKind("int4", 32, 32, False),
    "Q4_1": GroupedKind("int4", 32, 32, True),
    "Q5_0": GroupedKind("int8", 32, 32, False),
    "Q5_1": GroupedKind("int8", 32, 32, True),
    "Q8_0": GroupedKind("int8", 32, 32, False),
    "Q2_K": GroupedKind("int4", 16, 256, True),
    "Q3_K": GroupedKind("int4", 16, 256, False),
    "Q4_K": GroupedKind("int4", 32, 256, True),
    "Q5_K": GroupedKind("int8", 32, 256, True),
    "Q6_K": GroupedKind("int8", 16, 256, False),
    "IQ4_NL": GroupedKind("int8", 32, 32, False),
    "IQ4_XS": GroupedKind("int8", 32, 256, False),
}
KINDS = sorted({*KIND_OF_TYPE.values()})
_SCALES_AT = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}  # in a block; at its start in the other types


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRows:
    """A value is scale * number + offset, exactly; where a block has several groups, a scale and an offset are their
    group's step times their block's.
    """

    numbers: NDArray[np.int8]  # [rows, inputs]
    scales: NDArray[np.float16]  # [rows, blocks]
    offsets: NDArray[np.float16] | None = None  # likewise
    steps: NDArray[np.int8] | None = None  # [rows, groups]
    offset_steps: NDArray[np.int8] | None = None  # likewise

    def values(self) -> NDArray[np.float32]:
        """What the numbers stand for.  # [rows, inputs]"""
        scales = _of_groups(self.scales, self.steps)
        values = self.numbers.reshape(*scales.shape, -1) * scales[..., None]
        if self.offsets is not None:
            values += _of_groups(self.offsets, self.offset_steps)[..., None]
        return values.reshape(self.numbers.shape)


def _of_groups(units: NDArray[np.float16], steps: NDArray[np.int8] | None) -> NDArray[np.float32]:
    scales = units.astype(np.float32)
    return scales if steps is None else np.repeat(scales, steps.shape[1] // scales.shape[1], axis=1) * steps


def number_range(kind: GroupedKind) -> tuple[int, int]:
    """The least and the most that a number can be."""
    if kind.format == "int8":
        return (-32, 31) if kind.group == 16 else (-128, 127)
    return (0, 15) if kind.has_offsets else (-8, 7)


def random_rows(kind: GroupedKind, outputs: int, inputs: int, seed: int = 0) -> GroupedRows:
    """Rows whose values are near 1; scales are of either sign, some of them subnormal or zero."""
    rng = np.random.default_rng(seed)
    low, high = number_range(kind)
    has_steps = kind.block > kind.group

    def units() -> NDArray[np.float16]:
        scales = rng.standard_normal((outputs, inputs // kind.block)) / high / (16 if has_steps else 1)
        return (scales * rng.choice([1.0, 1.0, 1.0, 2.0**-12, 0.0], scales.shape)).astype(np.float16)

    def steps() -> NDArray[np.int8]:
        return rng.integers(-32, 32, (outputs, inputs // kind.group), dtype=np.int8)

    return GroupedRows(
        numbers=rng.integers(low, high + 1, (outputs, inputs), dtype=np.int8),
        scales=units(),
        offsets=units() if kind.has_offsets else None,
        steps=steps() if has_steps else None,
        offset_steps=steps() if has_steps and kind.has_offsets else None,
    )


def arrays(rows: GroupedRows, first: int = 0, end: int | None = None) -> dict[str, Any]:
    """What `store_groups` takes of some rows."""
    found = {field.name: getattr(rows, field.name) for field in fields(rows)}
    return {name: values[first:end] for name, values in found.items() if values is not None}


def new_weight(device: Device, kind: GroupedKind, outputs: int, inputs: int) -> PackedWeight:
    return PackedWeight(device, kind.format, outputs, inputs, kind[1:])


def packed(device: Device, kind: GroupedKind, rows: GroupedRows) -> PackedWeight:
    weight = new_weight(device, kind, *rows.numbers.shape)
    weight.store_groups(0, **arrays(rows))
    return weight


def random_blocks(name: str, outputs: int, inputs: int, *, scale: float | None = None) -> NDArray[np.uint8]:
    """Rows of blocks of any bytes, their scales too, unless these are all to be the same.  # [rows, bytes of a row]"""
    values, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = np.random.default_rng(3).integers(0, 256, (outputs, inputs // values, size), dtype=np.uint8)
    if scale is not None:
        for at in _SCALES_AT.get(name, (0, 2) if KIND_OF_TYPE[name].has_offsets else (0,)):
            blocks[..., at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    return blocks.reshape(outputs, -1)


def values_of(name: str, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What blocks stand for, as llama.cpp's own package computes it."""
    with np.errstate(all="ignore"):
        values: NDArray[np.float32] = dequantize(blocks, GGMLQuantizationType[name])
    return values
