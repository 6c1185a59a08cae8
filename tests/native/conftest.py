"""Fixtures of the native tests: every device of this machine, and the formats of activations."""

from collections.abc import Iterator

import pytest
import torch

from tests.native.devices import DEVICES, EMULATION
from tests.native.row_invariance import LONG_INPUTS


@pytest.fixture(params=DEVICES)
def device_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["f32", "bf16"])
def number_format(request: pytest.FixtureRequest) -> str:
    """Of activations."""
    return str(request.param)


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """On matrices this small, torch's threads spend their time waiting for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The emulation is slow: what differs from another format in a conversion only, and other numbers of threads, none
    of which a kernel runs on, are left to `make matrix`.

    Whole models are held in bf16 and int4, and so are the longest rows, without a bias; fp8 keys and values are
    attended as int8 ones are.
    """
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if params.get("device_name") != EMULATION:
            continue
        is_of_one_matrix = item.name.startswith(("test_product", "test_embedding"))
        is_other_model = params.get("weight_format") in {"f32", "int8", "fp8"} or params.get("threads") in {1, 3}
        is_other_cache = params.get("kv_format") == "fp8" and item.name.startswith(
            ("test_attention[", "test_rotary_and_attention")
        )
        is_long = params.get("inputs") == LONG_INPUTS and (is_other_model or params.get("has_bias"))
        if (is_other_model and not is_of_one_matrix) or is_other_cache or is_long:
            item.add_marker(pytest.mark.exhaustive)
