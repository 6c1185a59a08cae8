"""The largest integers that weights and rows can hold: no sum of their products overflows on its way."""

import numpy as np
import pytest
from numpy.typing import NDArray

from services.engine.decoder.native import Device, isas
from services.engine.decoder.native.testing import PackedWeight
from tests.native.harness.grouped import KINDS, GroupedKind, GroupedRows, number_range, packed

OUTPUTS, INPUTS = 70, 768
ISAS = [*isas(), *(["emulated_avx512", "emulated_amx"] if "avx2" in isas() else [])]

on_all = pytest.mark.parametrize("isa", ISAS)


def signs(count: int, seed: int) -> NDArray[np.int64]:
    """Rows of one sign, of signs that alternate after 1, 2, 4 … inputs, and of random ones.  # [count, INPUTS]"""
    random = np.random.default_rng(seed).choice([-1, 1], (count, INPUTS))
    places = np.arange(INPUTS)
    regular = [np.ones(INPUTS), -np.ones(INPUTS), *(1 - 2 * (places // width % 2) for width in (1, 2, 4, 8, 16, 32))]
    random[: len(regular)] = regular[:count]
    return random


@on_all
def test_sums_of_int8_are_exact(isa: str) -> None:
    rows, numbers = 127 * signs(20, seed=1), 127 * signs(OUTPUTS, seed=2)
    weight = PackedWeight(Device.cpu(isa, 1), "int8", OUTPUTS, INPUTS)
    weight.store(0, numbers.astype(np.float32))
    assert np.array_equal(weight.multiply(rows.astype(np.float32)), rows @ numbers.T)


@on_all
def test_sums_of_int4_are_those_of_the_integers_that_it_holds(isa: str) -> None:
    rows = 127 * signs(20, seed=1)
    weight = PackedWeight(Device.cpu(isa, 1), "int4", OUTPUTS, INPUTS)
    weight.store(0, np.float32(127.5) * signs(OUTPUTS, seed=2).astype(np.float32))  # whose scale is 1
    held = weight.multiply(127 * np.eye(INPUTS, dtype=np.float32)).T / 127  # each input alone
    assert np.array_equal(held, np.rint(held))
    assert {held.min(), held.max()} == {-128, 127}
    assert np.array_equal(weight.multiply(rows.astype(np.float32)), rows @ held.astype(np.int64).T)


@on_all
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sums_of_groups_are_exact(isa: str, kind: GroupedKind) -> None:
    least, most = number_range(kind)
    rows = 127 * signs(20, seed=1)
    numbers = np.where(signs(OUTPUTS, seed=2) > 0, most, least)
    units = np.ones((OUTPUTS, INPUTS // kind.block), np.float16)
    steps = np.ones((OUTPUTS, INPUTS // kind.group), np.int8) if kind.block > kind.group else None
    values = GroupedRows(
        numbers=numbers.astype(np.int8),
        scales=units,
        offsets=units if kind.has_offsets else None,
        steps=steps,
        offset_steps=steps if kind.has_offsets else None,
    )
    found = packed(Device.cpu(isa, 1), kind, values).multiply(rows.astype(np.float32))
    assert np.array_equal(found, rows @ (numbers + int(kind.has_offsets)).T)
