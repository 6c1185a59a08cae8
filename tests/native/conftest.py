"""Fixtures of the native tests: every instruction set of this machine, every storage format."""

import pytest

from services.engine.config import KV_FORMATS, WEIGHT_FORMATS
from services.engine.native import isas


@pytest.fixture(params=isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["f32", "bf16"])
def number_format(request: pytest.FixtureRequest) -> str:
    """Of activations."""
    return str(request.param)


@pytest.fixture(params=WEIGHT_FORMATS)
def weight_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=KV_FORMATS)
def kv_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)
