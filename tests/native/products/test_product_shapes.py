"""Every cut of a matrix product on a GPU gives the same bits; which of them was launched is looked at."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import PackedWeight
from tests.harness.further import further
from tests.native.harness.devices import (
    DEVICES,
    EMULATION,
    GPU,
    Generation,
    count_launches,
    emulated_device,
    make_device,
    needs_emulation,
)
from tests.native.harness.row_invariance import normal, same_bits

TILED_FORMATS = ["bf16", "int8", "int4", "fp8"]
INPUTS = 70  # three tiles, the last of them in part
NUM_SHAPES = {"int4": 9}  # in other formats one more
WITHOUT_GROUPS = "blackwell"  # Hopper's arithmetic, but many rows are multiplied as on other GPUs


@dataclass(frozen=True)
class Size:
    """A product that a GPU of 108 to 148 multiprocessors computes in a shape of its own."""

    outputs: int
    rows: int


# All shapes of a GPU with much memory for a block, from the widest on.
WIDE = [Size(9500, 257), Size(14500, 33), Size(14500, 17), Size(4800, 9), Size(4800, 8), Size(19000, 8)]
NARROW = [Size(100, 500), Size(100, 17), Size(100, 9), Size(100, 1)]

# Those of a GPU so small that few outputs are many, with segments of some tiles.
SMALL_GPU = 2
DEEP = [Size(300, 130), Size(300, 33), Size(300, 17), Size(100, 40), Size(100, 20), Size(300, 9), Size(300, 8)]
DEEP_INPUTS = [37 * 32 - 5, 33 * 32, 8 * 32]  # 5 tiles a segment, 2 in the last; 5, and one segment empty; 1
_BY_DEFAULT = {("bf16", DEEP_INPUTS[0]), ("int4", DEEP_INPUTS[1]), ("fp8", DEEP_INPUTS[1]), ("int8", DEEP_INPUTS[2])}
IN_SEGMENTS = [
    each if each in _BY_DEFAULT else further(*each) for each in itertools.product(TILED_FORMATS, DEEP_INPUTS)
]
_GROUPS_BY_DEFAULT = {
    *(("bf16", DEEP_INPUTS[0], 65), ("bf16", INPUTS, 193), ("int4", DEEP_INPUTS[1], 65)),
    *(("int8", DEEP_INPUTS[2], 193), ("fp8", DEEP_INPUTS[1], 65)),
}
IN_GROUPS = [
    each if each in _GROUPS_BY_DEFAULT else further(*each)
    for each in itertools.product(TILED_FORMATS, [INPUTS, *DEEP_INPUTS], [65, 193])
]
LARGE = [Size(16384, rows) for rows in (1, 8, 9, 16, 17, 32, 33, 64, 65, 129, 512)]


class Products:
    """A matrix on a device, and the shapes in which it is multiplied."""

    def __init__(self, device: Device, weight_format: str, outputs: int, inputs: int) -> None:
        self._weight = PackedWeight(device, weight_format, outputs, inputs)
        self._weight.store(0, normal(outputs, inputs))

    def multiply(self, rows: np.ndarray) -> tuple[np.ndarray, set[str]]:
        """The product, and the kernels of the emulation that computed it."""
        before = count_launches()
        result = self._weight.multiply(rows)
        return result, set(_launched(count_launches() - before))


def _launched(kernels: Counter[str]) -> Iterator[str]:
    return (name for name in kernels if "Product" in name)


def assert_rows_of_their_own(device: Device, weight_format: str, size: Size, inputs: int = INPUTS) -> set[str]:
    """Compare a product with that of a few of its rows, each alone; return the kernels of the product."""
    products = Products(device, weight_format, size.outputs, inputs)
    rows = normal(size.rows, inputs, seed=1)
    result, kernels = products.multiply(rows)
    for row in {0, size.rows // 2, size.rows - 1}:
        assert same_bits(products.multiply(rows[[row]])[0], result[[row]]), (size, row)
    return kernels


@needs_emulation
@pytest.mark.parametrize("multiprocessors", [132, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (108, 148))])
@pytest.mark.parametrize(  # int8 and fp8 have the shapes of bf16
    "weight_format", ["bf16", "int4", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("int8", "fp8"))]
)
def test_every_shape_is_launched_and_has_the_bits_of_lone_rows(weight_format, multiprocessors):
    kernels = []
    for size in WIDE + NARROW:
        device = emulated_device(1, multiprocessors=multiprocessors, generation=WITHOUT_GROUPS)
        kernels += [assert_rows_of_their_own(device, weight_format, size)]
    assert all(len(each) == 1 for each in kernels)
    assert len(set.union(*kernels)) == NUM_SHAPES.get(weight_format, 10)


@needs_emulation
@pytest.mark.parametrize(("weight_format", "inputs"), IN_SEGMENTS)
def test_segments_of_some_tiles_have_the_bits_of_each_row_alone(weight_format, inputs):
    device = emulated_device(1, multiprocessors=SMALL_GPU, generation=WITHOUT_GROUPS)
    kernels = [assert_rows_of_their_own(device, weight_format, size, inputs) for size in DEEP]
    assert all(len(each) == 1 for each in kernels)
    assert len(set.union(*kernels)) == len(DEEP)


@needs_emulation
@pytest.mark.parametrize("weight_format", TILED_FORMATS)
def test_rows_are_multiplied_where_a_block_has_little_memory(weight_format):
    device = emulated_device(1, multiprocessors=SMALL_GPU, generation=WITHOUT_GROUPS, block_memory=99)
    kernels = [assert_rows_of_their_own(device, weight_format, DEEP[i]) for i in (0, 2, 4)]
    assert len(set.union(*kernels)) == 3  # 17 rows of many outputs and of few have shapes of their own


@needs_emulation
@pytest.mark.parametrize(("weight_format", "inputs", "rows"), IN_GROUPS)  # 65 rows are the fewest
def test_groups_of_warps_give_the_bits_of_other_gpus(weight_format, inputs, rows):
    """Of five units a block has none, one or some as a whole; the segments of the others are spread over all blocks."""
    values = normal(rows, inputs, seed=1)

    def multiply(generation: Generation, multiprocessors: int) -> tuple[np.ndarray, set[str]]:
        device = emulated_device(1, multiprocessors=multiprocessors, generation=generation)
        return Products(device, weight_format, outputs=600, inputs=inputs).multiply(values)

    expected, judges = multiply(WITHOUT_GROUPS, SMALL_GPU)
    assert not any("GroupProduct" in kernel for kernel in judges)
    for multiprocessors in (1, 3, 4, 11):
        result, kernels = multiply("hopper", multiprocessors)
        assert [kernel for kernel in kernels if "GroupProduct" not in kernel] == []
        assert same_bits(result, expected), multiprocessors


@needs_emulation
@pytest.mark.parametrize("weight_format", TILED_FORMATS)
def test_groups_have_tiles_of_rows_of_two_sizes(weight_format):
    """Few sums have room beside those of scaled groups."""
    device = emulated_device(1)
    kernels = [assert_rows_of_their_own(device, weight_format, Size(130, rows), inputs=8 * 32) for rows in (100, 190)]
    assert len(set.union(*kernels)) == (1 if weight_format == "int4" else 2)


@needs_emulation
@pytest.mark.parametrize(
    "device_name",
    [pytest.param(EMULATION, marks=pytest.mark.exhaustive), *([GPU] if GPU in DEVICES else [])],
)
@pytest.mark.parametrize("size", LARGE, ids=str)
@pytest.mark.parametrize("weight_format", TILED_FORMATS)
def test_products_as_large_as_those_of_models(device_name, weight_format, size):
    device = make_device(device_name, threads=1) if device_name == GPU else emulated_device(1, multiprocessors=132)
    assert_rows_of_their_own(device, weight_format, size)
