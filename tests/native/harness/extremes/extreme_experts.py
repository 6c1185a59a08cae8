"""Calls that put a number where experts take one; part of `extreme_numbers`."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from services.engine.checkpoint.model_config import Experts, ExpertScores
from services.engine.decoder.native import DecoderConfig, Device
from services.engine.decoder.native.testing import Operations, PackedWeight
from tests.native.harness.random_models import PLAIN

_EXPERTS = Experts(count=4, per_token=2, size=8, are_normalised=True, scores=ExpertScores.SIGMOID)


def expert_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number, under the name of its function and argument."""
    for name in ("count", "per_token", "size", "groups", "groups_per_token"):
        yield f"DecoderConfig.experts.{name}", lambda number, name=name: _configure(name, number)  # type: ignore[misc]
    for name in ("per_token", "groups", "groups_per_token"):
        yield f"Operations.route.{name}", lambda number, name=name: _route(device, {name: number})  # type: ignore[misc]
    yield "PackedWeight.multiply_experts.first_rows", lambda number: _multiply(device, number)


def _configure(name: str, number: int) -> DecoderConfig:
    DecoderConfig(replace(PLAIN, experts=_EXPERTS))  # can be made; with the change it may not
    return DecoderConfig(replace(PLAIN, experts=replace(_EXPERTS, **{name: number})))  # type: ignore[arg-type]


def _multiply(device: Device, number: int) -> None:
    weights = [PackedWeight(device, "bf16", 4, 64) for _ in range(2)]
    first_rows = np.array([0, number % 2**32, 3], np.uint32).view(np.int32)
    PackedWeight.multiply_experts(weights, np.ones((3, 64), np.float32), first_rows)


def _route(device: Device, changes: dict[str, int]) -> None:
    numbers = {"per_token": 2, "groups": 2, "groups_per_token": 1, **changes}
    Operations.route(device, np.ones((3, 4), np.float32), are_normalised=True, scores="sigmoid", **numbers)  # type: ignore[arg-type]
