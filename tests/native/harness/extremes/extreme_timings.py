"""Calls of what times operations, with extreme numbers; a part of `extreme_numbers`."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import KvLayer, Operations, PackedWeight
from tests.native.harness.extremes.extreme_places import PLACES, places


def timing_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number, under the name of its function and argument."""
    weight, rows = PackedWeight(device, "f32", 4, 3), np.ones((2, 3), np.float32)
    weight.store(0, np.ones((4, 3), np.float32))
    yield "PackedWeight.time_products.runs", partial(PackedWeight.time_products, [weight], rows)
    for name in (*PLACES, "runs"):
        yield f"KvLayer.time_attention.{name}", partial(_attend, device, name)
    for name in (*PLACES, "times", "runs"):
        yield f"KvLayer.time_rotate_and_store.{name}", partial(_store, device, name)
    for name in ("times", "runs"):
        yield f"Operations.time_residual_norm.{name}", partial(_normalise, device, name)
        yield f"Operations.time_activate.{name}", partial(_activate, device, name)


def _attend(device: Device, name: str, number: int) -> None:
    _, runs = _counts(name, number)
    KvLayer.time_attention([_layer(device)], np.ones((1, 3 * 8), np.float32), *_one_row(name, number), runs)


def _store(device: Device, name: str, number: int) -> None:
    times, runs = _counts(name, number)
    qkv, angles = np.ones((1, 3 * 8), np.float32), np.ones((1, 2, 4), np.float32)
    _layer(device).time_rotate_and_store(
        qkv, *_one_row(name, number), angles=angles, q_norm=None, k_norm=None, times=times, runs=runs
    )


def _normalise(device: Device, name: str, number: int) -> None:
    times, runs = _counts(name, number)
    rows = np.ones((2, 4), np.float32)
    Operations.time_residual_norm(device, rows, rows, np.ones(4, np.float32), times, runs)


def _activate(device: Device, name: str, number: int) -> None:
    times, runs = _counts(name, number)
    Operations.time_activate(device, np.ones((2, 4), np.float32), times, runs)


def _layer(device: Device) -> KvLayer:
    return KvLayer(device, "bf16", num_blocks=2, num_kv_heads=1, head_dim=8)


def _counts(name: str, number: int) -> tuple[int, int]:
    return (number, 1) if name == "times" else (1, number if name == "runs" else 1)


def _one_row(name: str, number: int) -> tuple[Any, Any, Any]:
    return places(**({name: number} if name in PLACES else {}))
