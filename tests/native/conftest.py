"""Fixtures of the native tests: every device of this machine, every storage format."""

import pytest

from services.engine.config import KV_FORMATS, WEIGHT_FORMATS
from tests.native.devices import DEVICES, EMULATION, skip_unless_weights_are_held


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The emulation is slow: there whole models are held in bf16 and int4, on one number of threads, none of which a
    kernel runs on; in other formats and on other numbers by `make matrix`."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        is_other = params.get("weight_format") in {"f32", "int8", "fp8"} or params.get("threads") in {1, 3}
        is_of_one_matrix = item.name.startswith(("test_product", "test_embedding"))
        if params.get("device_name") == EMULATION and is_other and not is_of_one_matrix:
            item.add_marker(pytest.mark.exhaustive)
