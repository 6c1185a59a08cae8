"""Block types: the formats in which a GGUF file may store a tensor's values, and their dequantisation.

llama.cpp defines the types and how they are dequantised; it publishes both as the package `gguf`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

_PLAIN: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}  # bfloat16 as its bits: NumPy has no such type
_QUANTISED = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
    *("TQ1_0", "TQ2_0", "MXFP4"),
)


@dataclass(frozen=True, slots=True)
class BlockType:
    """One format; a row of a tensor is a whole number of blocks."""

    name: str
    values: int  # of one block
    size: int  # bytes of one block

    def row_bytes(self, columns: int) -> int:
        """Return the bytes of a row; `columns` is a multiple of the block's values."""
        return columns // self.values * self.size

    def decode(self, rows: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the values of stored rows: unchanged, bfloat16 as its bits, or dequantised to float32.

        `rows` is contiguous, [rows, bytes]; the result is [rows, columns], and a view if nothing is computed.
        """
        if dtype := _PLAIN.get(self.name):
            return rows.view(dtype) if rows.ctypes.data % dtype.itemsize == 0 else rows.copy().view(dtype)
        with np.errstate(all="ignore"):  # a damaged scale may be infinite
            values: NDArray[np.float32] = dequantize(rows, GGMLQuantizationType[self.name])
        return values


def _block_type(name: str) -> BlockType:
    values, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    return BlockType(name, values, size)


BLOCK_TYPES = {int(GGMLQuantizationType[name]): _block_type(name) for name in (*_PLAIN, *_QUANTISED)}
"""The supported types, by their numbers in a file."""


def type_name(number: int) -> str:
    """Return the name of a type, supported or not; if it has none, its number."""
    return next((kind.name for kind in GGMLQuantizationType if kind == number), str(number))
