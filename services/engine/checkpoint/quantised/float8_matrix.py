"""Float8Matrix: weights as float8 (e4m3fn) with scales, which are dequantised."""

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.integer_matrix import VALUES, of_inputs
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.checkpoint.quantised.scale_grid import ScaleGrid


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
