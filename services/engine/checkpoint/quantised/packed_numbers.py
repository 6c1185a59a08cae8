"""Unsigned numbers of a few bits, packed one after the other in words of 32 bits."""

import numpy as np
from numpy.typing import NDArray

WORD = 32
"""Bits of a word."""


def unpack(words: NDArray[np.int32], bits: int, count: int) -> NDArray[np.uint8]:
    """Return the first `count` numbers of each row; the lowest bits come first.  # [rows, count]"""
    packed = np.ascontiguousarray(words).view(np.uint8)  # [rows, 4 * words]
    if 8 % bits:
        return _unpack_across_bytes(packed, bits, count)
    numbers = np.empty((*packed.shape, 8 // bits), dtype=np.uint8)
    for place in range(8 // bits):  # broadcasting over the last axis would have inner loops this short
        numbers[:, :, place] = packed >> np.uint8(place * bits) & np.uint8(2**bits - 1)
    return numbers.reshape(len(packed), -1)[:, :count]


def words_of(count: int, bits: int) -> int:
    """Return how many words this number of packed numbers takes."""
    return -(-count * bits // WORD)


def _unpack_across_bytes(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    each = np.unpackbits(packed, axis=1, count=count * bits, bitorder="little").reshape(len(packed), count, bits)
    whole = np.packbits(each, axis=2, bitorder="little")  # [rows, count, 1]
    return whole[:, :, 0]
