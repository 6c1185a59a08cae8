"""Calls that put a number where experts take one; part of `extreme_numbers`."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from services.engine.checkpoint.model_config import Experts
from services.engine.decoder.native import DecoderConfig, Device
from services.engine.decoder.native.testing import Operations
from tests.native.devices import is_cuda
from tests.native.random_models import PLAIN

_EXPERTS = Experts(count=4, per_token=2, size=8, are_normalised=True)


def expert_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number, under the name of its function and argument; a GPU has no experts to be chosen."""
    for name in ("count", "per_token", "size"):
        yield f"DecoderConfig.experts.{name}", lambda number, name=name: _configure(name, number)  # type: ignore[misc]
    yield "Operations.route.per_token", lambda number: _route(device, number)


def _configure(name: str, number: int) -> DecoderConfig:
    DecoderConfig(replace(PLAIN, experts=_EXPERTS))  # can be made; with the change it may not
    return DecoderConfig(replace(PLAIN, experts=replace(_EXPERTS, **{name: number})))  # type: ignore[arg-type]


def _route(device: Device, per_token: int) -> None:
    if not is_cuda(device.name):
        Operations.route(device, np.ones((3, 4), np.float32), per_token, are_normalised=True)
