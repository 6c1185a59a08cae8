"""Calls that put a number where grouped weights take one; part of `extreme_numbers`."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from services.engine.decoder.native import Decoder, DecoderConfig, Device
from services.engine.decoder.native.testing import PackedWeight
from tests.native.harness.random_models import PLAIN

_BLOCKS = "Q8_0", np.zeros((2, 2 * 34), np.uint8)
_ROWS: dict[str, Any] = {"numbers": np.ones((2, 64), np.int8), "scales": np.ones((2, 2), np.float16)}


def grouped_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number, under the name of its function and argument; a GPU refuses what it does not hold."""
    yield "Decoder.load_blocks.first_row", lambda number: _decoder(device).load_blocks("lm_head", number, *_BLOCKS)
    yield "PackedWeight.groups", partial(_weight, device)
    yield "PackedWeight.store_groups.first_row", lambda number: _weight(device, 32).store_groups(number, **_ROWS)
    yield "PackedWeight.store_blocks.first_row", lambda number: _weight(device, 32).store_blocks(number, *_BLOCKS)


def _decoder(device: Device) -> Decoder:
    config = DecoderConfig(replace(PLAIN, hidden_size=64))
    return Decoder(device, config, weights="f32", kv="f32", blocks={"lm_head": "Q8_0"})


def _weight(device: Device, group: int) -> PackedWeight:
    return PackedWeight(device, "int8", 4, 64, (group, group, False))
