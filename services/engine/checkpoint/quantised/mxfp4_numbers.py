"""MXFP4 (OCP Microscaling Formats, version 1.0) as integers: 4-bit numbers in blocks of 32 with a power of two each.

Twice each number is an integer, so the integers are doubled and the scales halved.
"""

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.blocks import are_exact, to_blocks

DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.int16)
"""Twice the value of each pattern of 4 bits."""
_HALVED = np.ldexp(np.float32(1.0), np.arange(256) - 128)  # half of 2^(exponent - 127), for each stored exponent
_IDLE = 128  # the exponent for a block of zeros, which may have any
_MAGNITUDES = 0x77  # the bits of two numbers without their signs


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
