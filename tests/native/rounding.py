"""What is left of numbers in a storage format."""

import numpy as np
import torch


def rounded(values: np.ndarray, number_format: str, *, is_fused: bool = True) -> np.ndarray:
    """Float32 values as a format stores them, in float32 again; int8 has one scale for the last axis.

    Where the instruction set does not fuse, a value over its scale is rounded once more before it is made an integer.
    """
    if number_format == "int8":
        largest = np.abs(values).max(axis=-1, keepdims=True)
        factor = np.float32(127.0) / largest
        numbers = np.rint(values.astype(np.float64) * factor if is_fused else values * factor)
        return (numbers * (largest / np.float32(127.0))).astype(np.float32)
    return torch.from_numpy(values).bfloat16().float().numpy() if number_format == "bf16" else values


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)
