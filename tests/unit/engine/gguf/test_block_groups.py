"""Blocks of a GGUF file in groups stand for the very values that llama.cpp's own package computes."""

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from services.engine.gguf.block_groups import BLOCK_GROUPS


@pytest.mark.parametrize("name", BLOCK_GROUPS)
def test_random_blocks_are_the_same_bits(name: str) -> None:
    """Every byte is a block's: scales of all sizes, infinite ones and NaN too."""
    groups, kind = BLOCK_GROUPS[name], GGMLQuantizationType[name]
    values, size = GGML_QUANT_SIZES[kind]
    assert groups.size == size
    stored = np.random.default_rng(3).integers(0, 256, (300, 4 * size), dtype=np.uint8)
    rows = groups.rows(stored)
    with np.errstate(all="ignore"):
        expected, found = dequantize(stored, kind), rows.values()
    finite = np.isfinite(expected)
    assert finite.mean() > 0.9
    assert found.shape == expected.shape == (300, 4 * values)
    assert np.array_equal(np.isfinite(found), finite)
    assert np.array_equal(found[finite].view(np.uint32), expected[finite].view(np.uint32))


@pytest.mark.parametrize("name", BLOCK_GROUPS)
def test_the_arrays_are_those_of_the_kind(name: str) -> None:
    groups = BLOCK_GROUPS[name]
    kind, rows = groups.kind, groups.rows(np.full((3, 2 * groups.size), 255, np.uint8))
    inputs = rows.numbers.shape[1]
    assert rows.scales.shape == (3, inputs // kind.block)
    assert (rows.offsets is not None) == kind.has_offsets
    assert (rows.steps is not None) == (kind.block > kind.group)
    assert (rows.offset_steps is not None) == (kind.has_offsets and kind.block > kind.group)
    if rows.steps is not None:
        assert rows.steps.shape == (3, inputs // kind.group)
    if kind.format == "int4":
        assert rows.numbers.min() >= (0 if kind.has_offsets else -8)
        assert rows.numbers.max() <= (15 if kind.has_offsets else 7)
