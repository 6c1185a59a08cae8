"""Fixtures of the native tests: every device of this machine, every storage format."""

import pytest

from services.engine.config import KV_FORMATS, WEIGHT_FORMATS
from tests.native.devices import DEVICES, skip_unless_weights_are_held


@pytest.fixture(params=DEVICES)
def device_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["f32", "bf16"])
def number_format(request: pytest.FixtureRequest) -> str:
    """Of activations."""
    return str(request.param)


@pytest.fixture(params=WEIGHT_FORMATS)
def weight_format(request: pytest.FixtureRequest, device_name: str) -> str:
    skip_unless_weights_are_held(device_name, request.param)
    return str(request.param)


@pytest.fixture(params=KV_FORMATS)
def kv_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)
