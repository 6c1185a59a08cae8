"""Integers and their scales as blocks of llama.cpp's types, which the kernels use directly."""

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Inputs of a block, which share a scale."""

_RANGES = {"Q4_0": (-8, 7), "Q8_0": (-128, 127)}  # the smallest first


def fitting_kind(least: int, most: int) -> str | None:
    """Return the smallest type that holds integers of a range, None if none does."""
    return next((kind for kind, (lowest, highest) in _RANGES.items() if lowest <= least and most <= highest), None)


def are_exact(scales: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which scales float16, the type of a block's scale, holds exactly."""
    with np.errstate(over="ignore"):  # an overflow gives an infinity, which is not equal
        exact: NDArray[np.bool_] = scales.astype(np.float16).astype(np.float32) == scales
    return exact


def to_blocks(kind: str, numbers: NDArray[np.int8], scales: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Return rows of blocks.  # numbers: [rows, in], scales: [rows, in / 32] -> [rows, bytes of a row]"""
    rows, inputs = numbers.shape
    each = numbers.reshape(rows, inputs // BLOCK, BLOCK)
    if kind == "Q4_0":  # the first half of a block in the lower bits
        halves = (each + np.int8(8)).view(np.uint8)
        packed = halves[..., : BLOCK // 2] | halves[..., BLOCK // 2 :] << np.uint8(4)
    else:
        packed = each.view(np.uint8)
    heads = np.ascontiguousarray(scales).view(np.uint8).reshape(rows, inputs // BLOCK, 2)
    return np.concatenate([heads, packed], axis=2).reshape(rows, -1)
