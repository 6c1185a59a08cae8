"""MXFP4 as GPT-OSS is published: `blocks` of 32 numbers of 4 bits, and `scales`, an exponent of two for each block.

The tensors hold the matrices of all experts one below the other. The format is that of OCP Microscaling Formats,
version 1.0. Twice each number is an integer, so the integers are doubled and the scales halved.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.blocks import BLOCK, are_exact, to_blocks
from services.engine.checkpoint.quantised.integer_matrix import IntegerMatrix, even_groups
from services.engine.checkpoint.quantised.packed_numbers import unpack
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.files.json_fields import JsonFields

_BITS = 4
_BLOCK_BYTES = BLOCK * _BITS // 8
_LEAST_DIMENSIONS = 3  # outputs, blocks, bytes
DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.int16)
"""Twice the value of each pattern of 4 bits."""
_HALVED = np.ldexp(np.float32(1.0), np.arange(256) - 128)  # half of 2^(exponent - 127), for each stored exponent
_IDLE = 128  # the exponent for a block of zeros, which may have any
_MAGNITUDES = 0x77  # the bits of two numbers without their signs


@dataclass(frozen=True, slots=True)
class Mxfp4:
    """The format has no parameters in quantization_config."""

    name: ClassVar = "MXFP4"
    mains: ClassVar = {"_blocks": ""}
    reads: ClassVar = "the experts of GPT-OSS, numbers of 4 bits in blocks of 32 with a power of two each"
    held: ClassVar = "exactly, a byte for each number"

    @classmethod
    def read(cls, config: JsonFields) -> "Mxfp4":  # noqa: ARG003 - its other fields are about training and GPUs
        """Return the method; no field of quantization_config changes it."""
        return cls()

    def matrix(self, parts: Parts) -> IntegerMatrix:
        """Return the matrix in these parts; raises CheckpointError naming the part at fault."""
        found = parts.require("blocks", ("U8",))
        if len(found) < _LEAST_DIMENSIONS or math.prod(found) == 0 or found[-1] != _BLOCK_BYTES:
            raise parts.error("blocks", f"has shape {[*found]}; by {self.name} it must be [..., {_BLOCK_BYTES}]")
        *outer, groups, size = found
        parts.expect("scales", ("U8",), (*outer, groups))
        shape = math.prod(outer), groups * BLOCK

        def numbers(begin: int, end: int) -> NDArray[np.int16]:
            packed = parts.tensor("blocks").reshape(shape[0], -1)[begin:end]
            return np.take(DOUBLED, unpack(packed, _BITS, shape[1]))

        def scales(begin: int, end: int) -> NDArray[np.float32]:
            exponents = parts.tensor("scales").reshape(shape[0], groups)[begin:end]
            packed = parts.tensor("blocks").reshape(shape[0], groups, size)[begin:end]
            return halved_scales(exponents, packed)

        return IntegerMatrix(
            parts.named("blocks", "scales"),
            shape,
            numbers=numbers,
            scales=scales,
            extremes=lambda: (int(DOUBLED.min()), int(DOUBLED.max())),
            group_of=even_groups(shape[1], BLOCK),
        )


def halved_scales(exponents: NDArray[np.uint8], packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the scales of the doubled numbers; a block of zeros, which may have any, gets one that fits float16.

    # exponents: [rows, blocks], packed: [rows, blocks, 16] -> [rows, blocks]
    """
    is_odd = ~are_exact(_HALVED)[exponents]
    if is_odd.any():
        exponents = exponents.copy()
        exponents[is_odd] = np.where((packed[is_odd] & _MAGNITUDES).any(axis=1), exponents[is_odd], _IDLE)
    return _HALVED[exponents]


def scales_of_file(rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the halved scales of rows of a GGUF file.  # [rows, bytes] -> [rows, blocks]"""
    blocks = _blocks_of_file(rows)
    return halved_scales(blocks[..., 0], blocks[..., 1:])


def to_bytes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of a GGUF file as rows of Q8_0.  # [rows, bytes] -> [rows, bytes]"""
    packed = _blocks_of_file(rows)[..., 1:]
    halves = np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=2)  # the first half in the lower bits
    numbers = np.take(DOUBLED, halves.reshape(len(rows), -1)).astype(np.int8)
    return to_blocks("Q8_0", numbers, scales_of_file(rows).astype(np.float16))


def _blocks_of_file(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return blocks, each an exponent and then 32 numbers.  # [rows, blocks, 17]"""
    return rows.reshape(len(rows), -1, 17)
