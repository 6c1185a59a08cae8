"""Calls that put a number where grouped weights take one; part of `extreme_numbers`."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from services.engine.decoder.native import Decoder, DecoderConfig, Device
from services.engine.decoder.native.testing import PackedWeight
from tests.native.random_models import PLAIN

_ROWS: dict[str, Any] = {"numbers": np.ones((2, 64), np.int8), "scales": np.ones((2, 2), np.float16)}


def grouped_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number, under the name of its function and argument; a GPU refuses what it does not hold."""
    yield "Decoder.kinds", lambda number: _decoder(device, number)
    yield "Decoder.load_groups.first_row", lambda number: _decoder(device, 32).load_groups("lm_head", number, **_ROWS)
    yield "PackedWeight.groups", partial(_weight, device)
    yield "PackedWeight.store_groups.first_row", lambda number: _weight(device, 32).store_groups(number, **_ROWS)


def _decoder(device: Device, group: int) -> Decoder:
    config = DecoderConfig(replace(PLAIN, hidden_size=64))
    return Decoder(device, config, weights="f32", kv="f32", kinds={"lm_head": ("int8", group, group, False)})


def _weight(device: Device, group: int) -> PackedWeight:
    return PackedWeight(device, "int8", 4, 64, (group, group, False))
