"""Block types: in which ways a GGUF file may store a tensor's values, and how they become numbers again.

What the types are and how they are undone is llama.cpp's to say; it publishes both as the package `gguf`.
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
}  # NumPy has no bfloat16: its bits
_QUANTISED = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
    *("TQ1_0", "TQ2_0", "MXFP4"),
)


@dataclass(frozen=True, slots=True)
class BlockType:
    """One way of storing; a row of a tensor is a whole number of blocks."""

    name: str
    values: int  # of one block
    size: int  # bytes of one block

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row, whose columns are whole blocks."""
        return columns // self.values * self.size

    def decode(self, rows: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the values of stored rows: as they are, bfloat16 as its bits, or else as float32.

        `rows` is contiguous, [rows, bytes]; the result is [rows, columns], and a view where nothing is computed.
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
"""By the number with which a file names a type."""


def type_name(number: int) -> str:
    """The name of a type, supported or not, where it has one."""
    return next((kind.name for kind in GGMLQuantizationType if kind == number), str(number))
