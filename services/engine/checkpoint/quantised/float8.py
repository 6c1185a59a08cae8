"""Float8 as model vendors publish it: `weight` in e4m3, to be multiplied by `weight_scale_inv` or `weight_scale`.

There is one scale for the matrix, for each output or for each block.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.integer_matrix import VALUES, of_inputs
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.quantised.scale_grid import Block, ScaleGrid, read_grid
from services.engine.files.json_fields import JsonFields, shown


def _e4m3_values() -> NDArray[np.float32]:
    """Return the value of each of the 256 patterns: a sign, four bits of exponent, three of fraction; two are NaN."""
    patterns = np.arange(256)
    exponents, fractions = patterns >> 3 & 15, patterns & 7
    magnitudes = np.where(exponents > 0, np.ldexp(8.0 + fractions, exponents - 10), np.ldexp(1.0 * fractions, -9))
    values: NDArray[np.float32] = np.where(patterns & 128, -magnitudes, magnitudes).astype(np.float32)
    values[patterns & 127 == 127] = np.nan
    return values


_VALUES = _e4m3_values()


class Float8Matrix:
    """A weight is its number times its scale."""

    kind = VALUES

    def __init__(self, parts: Parts, shape: tuple[int, int], scales: ScaleGrid) -> None:
        self.parts = parts.named("weight", scales.part)
        self.shape = shape
        self._tensors = parts
        self._scales = scales

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Return rows as numbers.  # [rows, in]"""
        scales = of_inputs(self._scales.of_rows(begin, end), self._scales.groups(self.shape[1])())
        numbers: NDArray[np.float32] = _VALUES[self._tensors.tensor("weight")[begin:end]]
        return numbers * scales

    def blocks(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows of float32 as bytes.  # [rows, bytes of a row]"""
        return self.rows(begin, end).view(np.uint8)


_SCALES = ("weight_scale_inv", "weight_scale")


@dataclass(frozen=True, slots=True)
class Float8:
    """The fields of quantization_config, which apply to all matrices."""

    blocks: tuple[Block, ...]

    name: ClassVar = "float8"
    mains: ClassVar = {".weight": ".weight"}
    reads: ClassVar = "e4m3 with a scale for a matrix, each output or each block"
    held: ClassVar = "dequantised"

    @classmethod
    def read(cls, config: JsonFields) -> "Float8":
        """Read quantization_config; raises CheckpointError for an unknown layout."""
        config.choice("quant_algo", ("FP8",), "FP8")
        config.choice("fmt", ("e4m3",), "e4m3")
        config.choice("weight_scale_fmt", ("float",), "float")
        return cls(read_blocks(config, "weight_block_size"))

    def matrix(self, parts: Parts) -> Float8Matrix:
        """Return the matrix in these parts; raises CheckpointError naming the part at fault."""
        shape = parts.matrix("weight", ("F8_E4M3",))
        scales = next((part for part in _SCALES if part in parts), _SCALES[0])
        return Float8Matrix(parts, shape, read_grid(parts, scales, shape, self.blocks))


def read_blocks(config: JsonFields, field: str) -> tuple[Block, ...]:
    """Read the size of blocks, outputs and inputs, if there is one; raises CheckpointError."""
    match config.raw(field):
        case None:
            return ()
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return ((rows, columns),)
        case value:
            raise config.error(field, f"must be two whole numbers above 0, is {shown(value)}")
