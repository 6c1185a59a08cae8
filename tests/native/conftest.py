"""Fixtures of the native tests: every device of this machine, every storage format."""

import pytest

from tests.native.devices import DEVICES


@pytest.fixture(params=DEVICES)
def device_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["f32", "bf16"])
def number_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)
