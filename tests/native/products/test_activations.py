"""Activations compute their formulas: compared with the same formulas in float64."""

import numpy as np
import pytest
import torch

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import Operations, PackedWeight
from tests.native.harness.devices import make_device
from tests.native.harness.row_invariance import normal, same_bits


@pytest.fixture
def device(device_name: str) -> Device:
    return make_device(device_name, threads=2)


def silu(values: np.ndarray) -> np.ndarray:
    return values / (1.0 + np.exp(-values))


def gelu_tanh(values: np.ndarray) -> np.ndarray:
    return 0.5 * values * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (values + 0.044715 * values**3)))


def gelu(values: np.ndarray) -> np.ndarray:
    exact: np.ndarray = torch.nn.functional.gelu(torch.from_numpy(values)).numpy()
    return exact


@pytest.mark.parametrize("activation", [silu, gelu, gelu_tanh])
@pytest.mark.parametrize("width", [1, 50, 3000])
def test_activate(device, activation, width):
    gate = np.linspace(-60.0, 60.0, 3 * width, dtype=np.float32).reshape(3, width)
    up = normal(3, width)
    result = Operations.activate(device, np.hstack([gate, up]), activation.__name__, format="f32")
    expected = activation(gate.astype(np.float64)) * up
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-7)
    plain = Operations.activate(device, gate, activation.__name__, format="f32", is_gated=False)
    np.testing.assert_allclose(plain, activation(gate.astype(np.float64)), rtol=2e-6, atol=1e-7)


def clamped_swiglu(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """As the reference code of GPT-OSS has it."""
    gate, up = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0)
    return gate / (1.0 + np.exp(-1.702 * gate)) * (up + 1.0)


@pytest.mark.parametrize("width", [1, 50, 3000])
def test_clamped_swiglu(device, width):
    gate = np.linspace(-60.0, 60.0, 3 * width, dtype=np.float32).reshape(3, width)
    up = 8.0 * normal(3, width)
    result = Operations.activate(device, np.hstack([gate, up]), "clamped_swiglu", format="f32")
    expected = clamped_swiglu(gate.astype(np.float64), up.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-6)
    not_a_number = np.full((1, 2), np.nan, np.float32)
    assert np.isnan(Operations.activate(device, not_a_number, "clamped_swiglu", format="f32")).all()


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_activations_at_the_ends(device, activation):
    gate = np.array([[np.nan, np.inf, 1e30, 500.0, 0.0, -500.0, -1e30]], dtype=np.float32)
    result = Operations.activate(device, np.hstack([gate, np.ones_like(gate)]), activation, format="f32")[0]
    assert np.isnan(result[0])
    assert result[1:4].tolist() == [np.inf, np.float32(1e30), 500.0]
    assert result[4:].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("weight_format", ["f32", "bf16", "int8", "int4", "fp8"])
@pytest.mark.parametrize(
    ("rows", "activation", "has_bias"), [(1, "silu", False), (9, "gelu", True), (20, "silu", True), (33, "silu", False)]
)
@pytest.mark.parametrize("width", [48, 50])  # of whole tiles of a GPU, and not
def test_a_gated_product_has_the_bits_of_product_and_activation(
    device, weight_format, rows, activation, has_bias, width
):
    is_gpu = device.name.startswith("cuda")
    if weight_format == "fp8" and not is_gpu:
        pytest.skip("a CPU has no fp8")
    inputs = 300
    weight = PackedWeight(device, weight_format, 2 * width, inputs)
    weight.store(0, normal(2 * width, inputs))
    values, bias = normal(rows, inputs, seed=1), normal(2 * width, seed=2) if has_bias else None
    number_format = "bf16" if weight_format == "bf16" or (is_gpu and weight_format != "f32") else "f32"
    both = Operations.activate(device, weight.multiply(values, bias), activation, format=number_format)
    assert same_bits(weight.multiply_gated(values, activation, bias), both)
