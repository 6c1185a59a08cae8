"""Block groups: the quantised blocks of a GGUF file as integers in groups, which loses nothing.

The layouts are those of llama.cpp's ggml-common.h.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.gguf.grouped_rows import GroupedKind, GroupedRows

Bytes = NDArray[np.uint8]

_NON_LINEAR = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


@dataclass(frozen=True, slots=True)
class BlockGroups:
    """How one type of blocks is held, and what splits blocks into it."""

    kind: GroupedKind
    size: int  # bytes of a block
    split: Callable[[Bytes], GroupedRows]  # [rows, blocks, size]

    def rows(self, stored: Bytes) -> GroupedRows:
        """Return rows of blocks as they are stored, [rows, bytes], as what they stand for."""
        return self.split(stored.reshape(len(stored), -1, self.size))


def _q4_0(blocks: Bytes) -> GroupedRows:
    return GroupedRows(numbers=_flat(_four_bits(blocks[..., 2:], 16) - 8), scales=_float16(blocks, 0))


def _q4_1(blocks: Bytes) -> GroupedRows:
    return GroupedRows(
        numbers=_flat(_four_bits(blocks[..., 4:], 16)), scales=_float16(blocks, 0), offsets=_float16(blocks, 2)
    )


def _q5_0(blocks: Bytes) -> GroupedRows:
    numbers = _four_bits(blocks[..., 6:], 16) | _bits(blocks[..., 2:6]) << 4
    return GroupedRows(numbers=_flat(numbers - 16), scales=_float16(blocks, 0))


def _q5_1(blocks: Bytes) -> GroupedRows:
    numbers = _four_bits(blocks[..., 8:], 16) | _bits(blocks[..., 4:8]) << 4
    return GroupedRows(numbers=_flat(numbers), scales=_float16(blocks, 0), offsets=_float16(blocks, 2))


def _q8_0(blocks: Bytes) -> GroupedRows:
    return GroupedRows(numbers=_flat(blocks[..., 2:]), scales=_float16(blocks, 0))


def _iq4_nl(blocks: Bytes) -> GroupedRows:
    return GroupedRows(numbers=_flat(_NON_LINEAR[_four_bits(blocks[..., 2:], 16)]), scales=_float16(blocks, 0))


def _q2_k(blocks: Bytes) -> GroupedRows:
    both, numbers = blocks[..., :16], _shifted(blocks[..., 16:80], 32, (0, 2, 4, 6)) & 3
    return GroupedRows(
        numbers=_flat(numbers),
        scales=_float16(blocks, 80),
        offsets=-_float16(blocks, 82),
        steps=_flat(both & 15),
        offset_steps=_flat(both >> 4),
    )


def _q3_k(blocks: Bytes) -> GroupedRows:
    low = _shifted(blocks[..., 32:96], 32, (0, 2, 4, 6)) & 3
    high = _shifted(blocks[..., :32], 32, range(8)) & 1  # its absence takes 4 off
    steps = _four_bits(blocks[..., 96:104], 8) | (_shifted(blocks[..., 104:108], 4, (0, 2, 4, 6)) & 3) << 4
    return GroupedRows(numbers=_flat((low | high << 2) - 4), scales=_float16(blocks, 108), steps=_flat(steps - 32))


def _q4_k(blocks: Bytes) -> GroupedRows:
    return _with_six_bit_steps(blocks, _four_bits(blocks[..., 16:144], 32))


def _q5_k(blocks: Bytes) -> GroupedRows:
    high = _shifted(blocks[..., 16:48], 32, range(8)) & 1
    return _with_six_bit_steps(blocks, np.bitwise_or(_four_bits(blocks[..., 48:176], 32), high << 4, dtype=np.uint8))


def _q6_k(blocks: Bytes) -> GroupedRows:
    low, high = _four_bits(blocks[..., :128], 64), _shifted(blocks[..., 128:192], 32, (0, 2, 4, 6)) & 3
    return GroupedRows(
        numbers=_flat((low | high << 4) - 32), scales=_float16(blocks, 208), steps=_flat(blocks[..., 192:208])
    )


def _iq4_xs(blocks: Bytes) -> GroupedRows:
    high = blocks[..., 2:4].copy().view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    steps = _four_bits(blocks[..., 4:8], 1) | high.astype(np.uint8) << 4
    numbers = _NON_LINEAR[_four_bits(blocks[..., 8:136], 16)]
    return GroupedRows(numbers=_flat(numbers), scales=_float16(blocks, 0), steps=_flat(steps - 32))


def _with_six_bit_steps(blocks: Bytes, numbers: Bytes) -> GroupedRows:
    """Q4_K and Q5_K: scales and minima of eight groups, in twelve bytes."""
    scales, minima, rest = np.split(blocks[..., 4:16], 3, axis=-1)
    return GroupedRows(
        numbers=_flat(numbers),
        scales=_float16(blocks, 0),
        offsets=-_float16(blocks, 2),
        steps=_flat(np.concatenate([scales & 63, rest & 15 | scales >> 2 & 48], axis=-1)),
        offset_steps=_flat(np.concatenate([minima & 63, rest >> 4 | minima >> 2 & 48], axis=-1)),
    )


def _four_bits(values: Bytes, run: int) -> Bytes:
    """The lower halves of each run of bytes, then their upper ones."""
    return np.bitwise_and(_shifted(values, run, (0, 4)), np.uint8(15))


def _bits(values: Bytes) -> Bytes:
    return np.unpackbits(values, axis=-1, bitorder="little")


def _shifted(values: Bytes, run: int, shifts: Iterable[int]) -> Bytes:
    """Each run of bytes, shifted right by each of these.  # [rows, blocks, bytes * shifts]"""
    by = np.array([*shifts], np.uint8)[:, None]
    shifted = values.reshape(*values.shape[:2], -1, 1, run) >> by
    return shifted.reshape(*values.shape[:2], -1)


def _float16(blocks: Bytes, at: int) -> NDArray[np.float16]:
    return blocks[..., at : at + 2].copy().view("<f2")[..., 0]


def _flat(values: NDArray[np.generic]) -> NDArray[np.int8]:
    """What is in int8, whether its bytes are said to have a sign or not.  # [rows, all of a row]"""
    return np.ascontiguousarray(values).view(np.int8).reshape(len(values), -1)


BLOCK_GROUPS = {
    "Q4_0": BlockGroups(GroupedKind("int4", 32, 32, False), 18, _q4_0),
    "Q4_1": BlockGroups(GroupedKind("int4", 32, 32, True), 20, _q4_1),
    "Q5_0": BlockGroups(GroupedKind("int8", 32, 32, False), 22, _q5_0),
    "Q5_1": BlockGroups(GroupedKind("int8", 32, 32, True), 24, _q5_1),
    "Q8_0": BlockGroups(GroupedKind("int8", 32, 32, False), 34, _q8_0),
    "Q2_K": BlockGroups(GroupedKind("int4", 16, 256, True), 84, _q2_k),
    "Q3_K": BlockGroups(GroupedKind("int4", 16, 256, False), 110, _q3_k),
    "Q4_K": BlockGroups(GroupedKind("int4", 32, 256, True), 144, _q4_k),
    "Q5_K": BlockGroups(GroupedKind("int8", 32, 256, True), 176, _q5_k),
    "Q6_K": BlockGroups(GroupedKind("int8", 16, 256, False), 210, _q6_k),
    "IQ4_NL": BlockGroups(GroupedKind("int8", 32, 32, False), 18, _iq4_nl),
    "IQ4_XS": BlockGroups(GroupedKind("int8", 32, 256, False), 136, _iq4_xs),
}
"""By the names that llama.cpp gives to the types."""
