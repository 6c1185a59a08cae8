"""AVX-512's vectors and AMX's tiles, emulated ones and the machine's own if it has them, compute what AVX2 does."""

import numpy as np
import pytest

from services.engine.decoder.native import Device, isas
from services.engine.decoder.native.testing import PackedWeight
from tests.harness.further import all_with
from tests.native.harness.grouped import KINDS, GroupedKind, packed, random_rows
from tests.native.harness.row_invariance import normal, same_bits

EXPECTED = "avx2"
EMULATED_VECTORS, EMULATED_TILES = "emulated_avx512", "emulated_amx"
TILED = [EMULATED_TILES, *(isa for isa in isas() if isa == "amx")]
WIDE = [EMULATED_VECTORS, *(isa for isa in isas() if isa == "avx512"), *TILED]
COUNTS = [1, 2, 3, 4, 6, 7, 12, 15, 16, 17, 32, 33, 64, 70, 129]  # around blocks, tiles, passes
# Half a step of tiles, steps, and a part more; slices, and parts of one.
INPUTS = all_with([32, 64, 70, 96, 1024, 1056, 2080], 32, 70, 1056)
OUTPUTS = 150  # two panels, and a part of one

FEWEST_MANY = [1, 1 << 20]  # rows: always the way for many, and never

on_wide = pytest.mark.parametrize("isa", WIDE)
on_tiles = pytest.mark.parametrize("isa", TILED)
pytestmark = pytest.mark.skipif(EXPECTED not in isas(), reason="this machine has no AVX2")


def normal_weight(
    isa: str, weight_format: str, inputs: int, *, threads: int = 1, many_rows: int | None = None
) -> PackedWeight:
    weight = PackedWeight(Device.cpu(isa, threads, many_rows=many_rows), weight_format, OUTPUTS, inputs)
    weight.store(0, normal(OUTPUTS, inputs))
    return weight


@on_wide
@pytest.mark.parametrize("weight_format", ["f32", "int8", "int4"])
@pytest.mark.parametrize("inputs", INPUTS)
def test_products_have_the_same_bits(isa: str, weight_format: str, inputs: int) -> None:
    rows, bias = normal(max(COUNTS), inputs, seed=1), normal(OUTPUTS, seed=2)
    expected = normal_weight(EXPECTED, weight_format, inputs).multiply(rows, bias)
    for many_rows in FEWEST_MANY:
        weight = normal_weight(isa, weight_format, inputs, many_rows=many_rows)
        for count in COUNTS:
            assert same_bits(weight.multiply(rows[:count], bias), expected[:count]), (many_rows, count)


@on_wide
@pytest.mark.parametrize("inputs", [32, 70, 1056])
def test_bf16_rows_are_computed_alone(isa: str, inputs: int) -> None:
    rows, bias = normal(max(COUNTS), inputs, seed=1), normal(OUTPUTS, seed=2)
    weight = normal_weight(isa, "bf16", inputs)
    alone = np.concatenate([weight.multiply(rows[[row]], bias) for row in range(len(rows))])
    shared = normal_weight(isa, "bf16", inputs, threads=2)
    for count in COUNTS:
        assert same_bits(shared.multiply(rows[:count], bias), alone[:count]), count


def test_emulated_bf16_sums_are_added_in_instruction_order() -> None:
    rng = np.random.default_rng(3)
    rows, values = (rng.choice([2.0**-12, 1.0, 3.0, 2.0**13], (count, 32)).astype(np.float32) for count in (4, OUTPUTS))
    weight = PackedWeight(Device.cpu(EMULATED_TILES, 1), "bf16", OUTPUTS, 32)
    weight.store(0, values)
    even, odd = (np.zeros((4, OUTPUTS), np.float32) for _ in range(2))
    for k in range(0, 32, 2):  # the products are exact in float64
        even = (even + np.multiply.outer(rows[:, k].astype(np.float64), values[:, k])).astype(np.float32)
        odd = (odd + np.multiply.outer(rows[:, k + 1].astype(np.float64), values[:, k + 1])).astype(np.float32)
    assert same_bits(weight.multiply(rows), even + odd)


@on_wide
def test_bf16_sums_of_small_integers_are_exact(isa: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-8, 9, (40, 1056)).astype(np.float32)
    values = rng.integers(-8, 9, (OUTPUTS, 1056)).astype(np.float32)
    weight = PackedWeight(Device.cpu(isa, 1), "bf16", OUTPUTS, 1056)
    weight.store(0, values)
    assert np.array_equal(weight.multiply(rows), rows @ values.T)


@on_wide
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_grouped_products_have_the_same_bits(isa: str, kind: GroupedKind) -> None:
    values, rows = random_rows(kind, OUTPUTS, 512), normal(max(COUNTS), 512, seed=1)
    expected = packed(Device.cpu(EXPECTED, 1), kind, values).multiply(rows)
    for many_rows in FEWEST_MANY:
        weight = packed(Device.cpu(isa, 1, many_rows=many_rows), kind, values)
        for count in COUNTS:
            assert same_bits(weight.multiply(rows[:count]), expected[:count]), (many_rows, count)
