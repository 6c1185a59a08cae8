"""compressed-tensors: integers of 1 to 8 bits, packed or a byte each, and float8; tensors decide for each matrix.

A weight is scale * (number - zero), with signed numbers; packed numbers are stored with an offset, as unsigned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.float8 import Float8Matrix, read_blocks
from services.engine.checkpoint.quantised.integer_matrix import Groups, IntegerMatrix, of_inputs
from services.engine.checkpoint.quantised.packed_matrix import PackedMatrix
from services.engine.checkpoint.quantised.packed_numbers import unpack, words_of
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.quantised.scale_grid import Block, ScaleGrid, read_grid
from services.engine.files.json_fields import JsonFields, shown

_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision", "dense")
_MOST_BITS = 8
_BYTE = 8


@dataclass(frozen=True, slots=True)
class CompressedTensors:
    """The fields of quantization_config that apply to all matrices; shapes follow from the tensors."""

    bits: tuple[int, ...]  # possible widths of packed numbers
    blocks: tuple[Block, ...]

    name: ClassVar = "compressed-tensors"
    mains: ClassVar = {".weight_packed": ".weight", ".weight": ".weight"}
    reads: ClassVar = (
        "integers of 1 to 8 bits, packed or not, scaled by matrix, output or group, with or without zero points; float8"
    )
    held: ClassVar = "integers exactly; float8, 8 bits with zero points and reordered groups dequantised"

    @classmethod
    def read(cls, config: JsonFields) -> "CompressedTensors":
        """Read quantization_config; raises CheckpointError for an unknown layout."""
        config.choice("format", _FORMATS, "dense")
        for field in ("sparsity_config", "transform_config"):
            extra = config.nested(field)
            if extra is not None and extra.raw("format") != "dense":
                raise config.error(field, f"only null, {{}} or the format dense is supported, is {shown(extra)}")
        bits: set[int] = set()
        blocks: set[Block] = set()
        groups = config.nested("config_groups") or config.empty("config_groups")
        for name in groups:
            group = groups.required(name)
            group.choice("format", _FORMATS, "dense")
            if (weights := group.nested("weights")) is not None:
                bits.add(weights.integer("num_bits", _BYTE, maximum=_MOST_BITS))
                weights.choice("type", ("int", "float"), "int")
                blocks |= {*read_blocks(weights, "block_structure")}
        return cls(tuple(sorted(bits)), tuple(sorted(blocks)))

    def matrix(self, parts: Parts) -> PackedMatrix:
        """Return the matrix in these parts; raises CheckpointError naming the part at fault."""
        if "weight_packed" in parts:
            return self._packed(parts)
        shape = parts.matrix("weight", ("I8", "F8_E4M3"))
        scales = read_grid(parts, "weight_scale", shape, self.blocks)
        if parts.files.kind(parts.name("weight")) == "F8_E4M3":
            return Float8Matrix(parts, shape, scales)
        return _integers(parts, "weight", scales, shape, _BYTE, lambda begin, end: parts.tensor("weight")[begin:end])

    def _packed(self, parts: Parts) -> IntegerMatrix:
        rows, words = parts.matrix("weight_packed", ("I32",))
        parts.expect("weight_shape", ("I64", "I32"), (2,))
        outputs, inputs = shape = tuple(parts.tensor("weight_shape").tolist())
        bits = next((bits for bits in self.bits if words_of(inputs, bits) == words), None)
        if outputs != rows or inputs < 1 or bits is None:
            widths = ", ".join(map(str, self.bits)) or "no"
            problem = f"is {[*shape]}, but weight_packed has {rows} rows of {words} words, for numbers of {widths} bits"
            raise parts.error("weight_shape", problem)
        scales = read_grid(parts, "weight_scale", shape)

        def stored(begin: int, end: int) -> NDArray[np.int16]:
            return unpack(parts.tensor("weight_packed")[begin:end], bits, inputs) - np.int16(2 ** (bits - 1))

        return _integers(parts, "weight_packed", scales, shape, bits, stored)


def _integers(
    parts: Parts,
    main: str,
    scales: ScaleGrid,
    shape: tuple[int, int],
    bits: int,
    stored: Callable[[int, int], NDArray[Any]],
) -> IntegerMatrix:
    """Return the matrix; `stored` returns some of its rows as signed numbers, from which zero points are subtracted."""
    groups, zeros = _groups(parts, scales, shape[1]), _zeros(parts, scales, shape[0], bits)
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def numbers(begin: int, end: int) -> NDArray[np.int16]:
        numbers = stored(begin, end).astype(np.int16)
        return numbers if zeros is None else numbers - of_inputs(zeros()[begin:end], groups())

    def extremes() -> tuple[int, int]:
        return (least, most) if zeros is None else (least - int(zeros().max()), most - int(zeros().min()))

    return IntegerMatrix(
        parts.named(main, "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx"),
        shape,
        numbers=numbers,
        scales=scales.of_rows,
        extremes=extremes,
        group_of=groups,
    )


def _groups(parts: Parts, scales: ScaleGrid, inputs: int) -> Groups:
    """Return a function for the group of each input; a part of -1 only means groups of neighbours."""
    if "weight_g_idx" not in parts or (parts.integers("weight_g_idx", (inputs,)) == -1).all():
        return scales.groups(inputs)
    return parts.groups("weight_g_idx", inputs, scales.grid[1])


def _zeros(parts: Parts, scales: ScaleGrid, outputs: int, bits: int) -> Callable[[], NDArray[np.int16]] | None:
    """Return a function for the zero points, a byte each or packed along the outputs; None: none.  # [out, groups]"""
    if "weight_zero_point" not in parts:
        return None
    rows, columns = scales.grid
    if parts.files.kind(parts.name("weight_zero_point")) == "I8":
        scale = parts.files.shape(parts.name("weight_scale"))
        parts.expect("weight_zero_point", ("I8",), scale)
        stored = parts.tensor("weight_zero_point")
        return lambda: np.broadcast_to(stored.reshape(rows, columns).astype(np.int16), (outputs, columns))
    parts.expect("weight_zero_point", ("I32",), (words_of(outputs, bits), columns))
    packed = parts.tensor("weight_zero_point")
    return lambda: unpack(packed.T, bits, outputs).T.astype(np.int16) - np.int16(2 ** (bits - 1))
