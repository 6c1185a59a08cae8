"""Weights that come in parts: in order, whole at last, and the same as those that come at once."""

import numpy as np
import pytest

from services.engine.decoder.native import Decoder, DecoderConfig, Device, isas
from tests.native.harness.devices import make_device
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens, random_weights


def new_decoder() -> Decoder:
    device = Device.cpu(isas()[0], threads=1)
    return Decoder(device, DecoderConfig(PLAIN), weights="bf16", kv="f32", num_blocks=4)


def test_weights_in_parts_are_the_same_weights(device_name):
    tokens, rows = random_tokens(PLAIN, 1, 9), [(0, position) for position in range(9)]
    whole, parts = (PagedDecoder(PLAIN, make_device(device_name, threads=2), "bf16", tokens=tokens) for _ in range(2))
    for name, values in random_weights(PLAIN).items():
        parts.decoder.load(name, np.zeros_like(values))
        for first_row in range(0, len(values), 19):
            parts.decoder.load_rows(name, first_row, values[first_row : first_row + 19])
    assert np.array_equal(parts.forward(rows), whole.forward(rows))


def test_a_weight_is_missing_until_its_last_part():
    decoder, values = new_decoder(), random_weights(PLAIN)["lm_head"]
    decoder.load_rows("lm_head", 0, values[:149])
    assert "lm_head" in decoder.missing_weights()
    decoder.load_rows("lm_head", 149, values[149:])
    assert "lm_head" not in decoder.missing_weights()


@pytest.mark.parametrize(
    ("first_row", "shape", "message"),
    [
        (0, (151, 70), r'"lm_head": rows from 0 on have shape \[151, 70\]; they must be of \[150, 70\]'),
        (100, (51, 70), r'"lm_head": rows from 100 on have shape \[51, 70\]; they must be of \[150, 70\]'),
        (100, (50, 71), "they must be of"),
        (100, (50,), "they must be of"),
        (99, (1, 70), r'"lm_head": first_row is 99; it must be 0, or 100, the first that is missing'),
        (101, (1, 70), "first_row is 101"),
        (-1, (1, 70), "first_row is -1"),
    ],
)
def test_wrong_parts_are_refused(first_row, shape, message):
    decoder = new_decoder()
    decoder.load_rows("lm_head", 0, np.zeros((100, 70), np.float32))
    with pytest.raises(ValueError, match=message):
        decoder.load_rows("lm_head", first_row, np.zeros(shape, np.float32))
