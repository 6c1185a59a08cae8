"""Two ways to multiply: from how many rows on one of them is taken is measured, and no result shows it."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Decoder, DecoderConfig, Device, isas
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.rounding import bits

CONFIG = replace(PLAIN, hidden_size=512, intermediate_size=2560, num_heads=16, head_dim=32, ropes=PLAIN.ropes)
WITH_TWO_WAYS = [isa for isa in isas() if isa in ("amx", "avx512")]
needs_two_ways = pytest.mark.skipif(not WITH_TWO_WAYS, reason="this machine's products have one way each")


def int4_decoder(device: Device) -> PagedDecoder:
    paged = PagedDecoder(CONFIG, device, "int4", tokens=random_tokens(CONFIG, 1, 40))
    for name, values in random_weights(CONFIG).items():
        paged.decoder.load(name, values)
    return paged


@needs_two_ways
def test_what_is_measured_changes_no_bit() -> None:
    rows = [(0, position) for position in range(40)]
    passes = [rows[:2], rows[2:8], rows[8:15], rows[15:]]
    results = []
    for many_rows in (None, 1, 1 << 20):
        paged = int4_decoder(Device.cpu(WITH_TWO_WAYS[0], 2, many_rows=many_rows))
        measured = paged.decoder.measure_many_rows()
        assert [*measured] == ([] if many_rows else ["int4"])
        assert all(2 <= found <= 17 for found in measured.values())
        results.append(np.concatenate([paged.forward(some) for some in passes]))
    assert np.array_equal(bits(results[0]), bits(results[1]))
    assert np.array_equal(bits(results[0]), bits(results[2]))


@needs_two_ways
def test_a_device_measures_once() -> None:
    device = Device.cpu(WITH_TWO_WAYS[0], 1)
    assert [*int4_decoder(device).decoder.measure_many_rows()] == ["int4"]
    assert int4_decoder(device).decoder.measure_many_rows() == {}


@pytest.mark.parametrize("weights", ["f32", "bf16"])
def test_products_that_have_one_way_are_not_measured(weights: str) -> None:
    decoder = Decoder(Device.cpu(isas()[0], 1), DecoderConfig(CONFIG), weights=weights, kv="f32")
    assert decoder.measure_many_rows() == {}


def test_small_matrices_are_not_measured() -> None:
    decoder = Decoder(Device.cpu(isas()[0], 1), DecoderConfig(PLAIN), weights="int4", kv="f32")
    assert decoder.measure_many_rows() == {}
