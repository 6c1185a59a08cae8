"""Fixtures of the native tests: every instruction set of this machine, every storage format."""

import pytest

from services.engine.native import isas


@pytest.fixture(params=isas())
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["f32", "bf16"])
def number_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)
