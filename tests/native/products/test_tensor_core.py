"""The emulation of a tensor core's bits, compared with a model of it that was measured on hardware."""

import numpy as np
import pytest
import torch
from mmasim.arithmetic.fdpa import MMA_T_FDPA

from tests.native.harness.devices import multiply_add, needs_emulation

pytestmark = needs_emulation

# What mmasim.nv_ptx has for m16n8k16 in bf16: fractional bits, products that meet, the exponent of a zero. (It
# compiles something when it is imported.)
GENERATIONS = {"ampere": (24, 8, -132), "hopper": (25, 16, -133)}


def expected(generation: str, left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> np.ndarray:
    bits, terms, of_zero = GENERATIONS[generation]
    model = MMA_T_FDPA(bits, "RZ-FP32", terms, of_zero, "bf16", "bf16")
    operands = (torch.from_numpy(each).to(torch.bfloat16) for each in (left, right))
    result: np.ndarray = model(*operands, torch.from_numpy(sums)).numpy()
    return result


def bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def assert_equal(generation: str, left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> None:
    result = multiply_add(generation, left, right, sums)
    assert np.array_equal(result.view(np.uint32), expected(generation, left, right, sums).view(np.uint32))


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("spread", [0, 3, 12, 40, 250])
def test_values_of_few_and_of_many_magnitudes(generation, spread):
    """Zeros, subnormal values, sums that cancel and sums that overflow are among them."""
    rng = np.random.default_rng(spread)
    for _ in range(12):
        left, right, sums = (
            rng.integers(0, 1 << 16, shape) & 0x807F | rng.integers(127 - spread // 2, 128 + spread // 2, shape) << 7
            for shape in ((16, 16), (16, 8), (16, 8))
        )
        left[rng.random(left.shape) < 0.1] = 0
        sums[rng.random(sums.shape) < 0.1] = 0x8000
        full = sums.astype(np.uint32) << 16 | rng.integers(0, 1 << 16, sums.shape, dtype=np.uint32)
        assert_equal(generation, bf16(left), bf16(right), full.view(np.float32))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_any_bits_at_all(generation):
    rng = np.random.default_rng(1)
    for _ in range(12):
        left, right = (rng.integers(0, 1 << 16, shape) for shape in ((16, 16), (16, 8)))
        left[rng.random(left.shape) < 0.9] &= 0x3FFF  # or most sums would be infinite
        right[rng.random(right.shape) < 0.9] &= 0x3FFF
        assert_equal(
            generation, bf16(left), bf16(right), rng.integers(0, 1 << 32, (16, 8), dtype=np.uint32).view(np.float32)
        )


def test_bits_below_the_last_one_are_cut_off_not_rounded():
    left, right, sums = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32), np.ones((16, 8), np.float32)
    left[0, :], right[:, 0] = 2.0**-12, 2.0**-12  # sixteen products, of half a unit in the last place each
    assert multiply_add("hopper", left, right, sums)[0, 0] == 1 + 2.0**-20
    left[0, :] = 2.0**-14  # of an eighth: one bit too small on a Hopper; two of them together would be seen
    assert multiply_add("hopper", left, right, sums)[0, 0] == 1.0
