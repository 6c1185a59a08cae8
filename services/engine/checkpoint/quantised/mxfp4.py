"""MXFP4 as GPT-OSS is published: `blocks` of 32 numbers of 4 bits, and `scales`, an exponent of two for each block.

The tensors hold the matrices of all experts one below the other.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.blocks import BLOCK
from services.engine.checkpoint.quantised.integer_matrix import IntegerMatrix, even_groups
from services.engine.checkpoint.quantised.mxfp4_numbers import DOUBLED, halved_scales
from services.engine.checkpoint.quantised.packed_numbers import unpack
from services.engine.checkpoint.quantised.parts import Parts
from services.engine.files.json_fields import JsonFields

_BITS = 4
_BLOCK_BYTES = BLOCK * _BITS // 8
_LEAST_DIMENSIONS = 3  # outputs, blocks, bytes


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
