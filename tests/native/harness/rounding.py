"""Numbers as a storage format rounds them."""

import numpy as np
import torch


def e4m3(values: np.ndarray) -> np.ndarray:
    """The nearest numbers of e4m3, in float32 again."""
    return torch.from_numpy(values).to(torch.float8_e4m3fn).float().numpy()


def rounded(values: np.ndarray, number_format: str, *, is_fused: bool = True) -> np.ndarray:
    """Float32 values as a format stores them, in float32 again; int8 and fp8 have one scale for the last axis.

    Where the instruction set does not fuse, a value over its scale is rounded once more before it is made an integer.
    """
    if number_format == "int8":
        largest = np.abs(values).max(axis=-1, keepdims=True)
        factor = np.float32(127.0) / largest
        numbers = np.rint(values.astype(np.float64) * factor if is_fused else values * factor)
        return (numbers * (largest / np.float32(127.0))).astype(np.float32)
    if number_format == "fp8":
        largest = np.abs(values).max(axis=-1, keepdims=True)
        return e4m3(values * (np.float32(448.0) / largest)) * (largest / np.float32(448.0))
    return torch.from_numpy(values).bfloat16().float().numpy() if number_format == "bf16" else values


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)
