"""Packed matrices: what their products compute, and how near they are to the values that were stored."""

import numpy as np
import pytest
import torch

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import PackedWeight
from tests.native.harness.devices import (
    in_every_weight_format,
    in_weight_formats,
    is_cuda,
    make_device,
    on_cpus,
    on_cuda,
)
from tests.native.harness.rounding import bits, e4m3, rounded


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
def device(device_name: str) -> Device:
    return make_device(device_name, threads=2)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def packed(device: Device, weight_format: str, matrix: np.ndarray) -> PackedWeight:
    weight = PackedWeight(device, weight_format, *matrix.shape)
    weight.store(0, matrix)
    return weight


@in_every_weight_format
@pytest.mark.parametrize(
    ("rows", "outputs", "inputs"),
    [(1, 1, 1), (3, 64, 32), (17, 100, 70), (40, 33, 257), (2, 130, 1100), (20, 260, 70), (70, 300, 33)],
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_product(rng, device, weight_format, rows, outputs, inputs, has_bias):
    matrix, values = normal(rng, outputs, inputs), normal(rng, rows, inputs)
    bias = normal(rng, outputs) if has_bias else None
    weight = packed(device, weight_format, matrix)
    stored = weight.embed(np.arange(outputs, dtype=np.int32), 1.0)
    exact = as_read(values, weight_format, device).astype(np.float64) @ stored.T.astype(np.float64)
    np.testing.assert_allclose(
        weight.multiply(values, bias), exact + (bias if has_bias else 0.0), rtol=0, atol=1e-6 * inputs**0.5 * 8
    )


def as_read(values: np.ndarray, weight_format: str, device: Device) -> np.ndarray:
    """A product's input as its kernel rounds it: on a CPU to int8 beside integer weights, a row with one scale."""
    if is_cuda(device.name):
        return rounded(values, "f32" if weight_format == "f32" else "bf16")
    number_format = "int8" if weight_format == "int4" else weight_format
    return rounded(values, number_format, is_fused=device.name != "cpu-portable")


def test_weights_are_rounded_to_their_format(rng, device, number_format):
    matrix = normal(rng, 77, 45)
    stored = packed(device, number_format, matrix).embed(np.arange(77, dtype=np.int32), 1.0)
    assert np.array_equal(bits(stored), bits(rounded(matrix, number_format)))


def test_int8_weights_are_within_half_a_step(rng, device):
    matrix = normal(rng, 77, 300) * np.float32(10.0) ** rng.integers(-5, 5, (77, 1))
    stored = packed(device, "int8", matrix.astype(np.float32)).embed(np.arange(77, dtype=np.int32), 1.0)
    step = np.abs(matrix).max(axis=1, keepdims=True) / 127
    assert (np.abs(stored - matrix) <= step * 0.5001).all()


def test_int4_weights_are_nearer_than_with_the_plain_scale(rng, device):
    matrix = normal(rng, 77, 320)
    stored = packed(device, "int4", matrix).embed(np.arange(77, dtype=np.int32), 1.0)
    groups = matrix.reshape(77, 10, 32)
    plain = np.abs(groups).max(axis=-1, keepdims=True) / 7
    plainly_rounded = (np.rint(groups / plain) * plain).reshape(matrix.shape)
    most = 0.9 if is_cuda(device.name) else 0.75  # a GPU's groups have no offset
    assert np.square(stored - matrix).sum() < most * np.square(plainly_rounded - matrix).sum()


@on_cpus
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0])
def test_int4_weights_are_within_a_step_of_their_group(rng, device, spread):
    """Groups that lie anywhere in the feature's range, wide ones and narrow ones.

    A CUDA device has a scale for each group, and no step in units of another.
    """
    groups = rng.uniform(-1.0, 1.0, (77, 10, 1)) + spread * rng.uniform(-1.0, 1.0, (77, 10, 32))
    matrix = groups.reshape(77, 320).astype(np.float32)
    stored = packed(device, "int4", matrix).embed(np.arange(77, dtype=np.int32), 1.0)
    unit = np.abs(matrix).max(axis=1)[:, None, None] / 127.5
    step = np.maximum(np.ptp(matrix.reshape(77, 10, 32), axis=-1, keepdims=True) / 15, unit)
    assert (np.abs(stored.reshape(77, 10, 32) - matrix.reshape(77, 10, 32)) <= 1.4 * step).all()


@pytest.mark.parametrize("weight_format", ["int8", "int4"])
def test_the_longest_product_is_exact(device, weight_format):
    """The largest integers, all of one sign: their sum is just within int32."""
    both = np.ones((2, 1 << 16), dtype=np.float32) * np.array([[1.0], [-1.0]], dtype=np.float32)
    result = packed(device, weight_format, both).multiply(both)
    np.testing.assert_allclose(result, 65536.0 * np.array([[1.0, -1.0], [-1.0, 1.0]]), rtol=1e-2)


@on_cpus
@pytest.mark.parametrize("weight_format", ["int8", "int4"])
def test_a_product_too_long_for_integers_is_refused(device, weight_format):
    """A CUDA device sums up in floating point."""
    with pytest.raises(ValueError, match="65537 inputs is too long"):
        PackedWeight(device, weight_format, 1, (1 << 16) + 1)


@on_cuda
def test_fp8_weights_are_the_nearest(rng, device):
    matrix = normal(rng, 77, 300) * np.float32(10.0) ** rng.integers(-5, 5, (77, 300))
    matrix[5, :64] = np.ldexp(np.arange(64, dtype=np.float32), -12) * np.abs(matrix[5]).max()
    stored = packed(device, "fp8", matrix.astype(np.float32)).embed(np.arange(77, dtype=np.int32), 1.0)
    scale = np.abs(matrix).max(axis=1, keepdims=True).astype(np.float32) / np.float32(448)
    factor = np.float32(1) / scale
    assert np.array_equal(bits(stored), bits(e4m3(matrix.astype(np.float32) * factor) * scale))


@on_cpus
def test_a_cpu_holds_no_fp8(device_name):
    with pytest.raises(ValueError, match='weights: a CPU holds them as "bf16", "f32", "int8" or "int4" only'):
        PackedWeight(make_device(device_name, threads=1), "fp8", 4, 4)


@in_weight_formats("int8", "int4", "fp8")
def test_a_zero_row_and_a_value_that_is_not_finite(rng, device, weight_format):
    values = normal(rng, 3, 64)
    values[0] = 0.0
    values[1, 5] = np.inf
    result = packed(device, weight_format, normal(rng, 20, 64)).multiply(values)
    assert (result[0] == 0.0).all()
    assert not np.isfinite(result[1]).any()
    assert np.isfinite(result[2]).all()


@in_every_weight_format
def test_a_row_that_is_not_finite_spoils_its_own_outputs_only(rng, device, weight_format):
    matrix, values = normal(rng, 300, 70), normal(rng, 90, 70)
    weight = packed(device, weight_format, matrix)
    clean = weight.multiply(values)
    for row in (0, 7, 8, 40, 89):
        spoilt = values.copy()
        spoilt[row] = np.nan
        result = weight.multiply(spoilt)
        assert np.isnan(result[row]).all()
        others = np.arange(90) != row
        assert np.array_equal(bits(result[others]), bits(clean[others]))


@in_weight_formats("int8", "int4", "fp8")
def test_a_weight_that_is_not_finite_spoils_its_own_output_only(rng, device, weight_format):
    matrix, values = normal(rng, 40, 70), normal(rng, 3, 70)
    matrix[9, 40] = np.inf
    result = packed(device, weight_format, matrix).multiply(values)
    assert np.array_equal(~np.isfinite(result), np.broadcast_to(np.arange(40) == 9, (3, 40)))


@in_every_weight_format
def test_parts_of_a_fused_weight_may_begin_anywhere(rng, device, weight_format):
    matrix, values = normal(rng, 150, 40), normal(rng, 5, 40)
    fused = PackedWeight(device, weight_format, 150, 40)
    for first, end in ((37, 101), (0, 37), (101, 150)):
        fused.store(first, matrix[first:end])
    whole = packed(device, weight_format, matrix)
    assert np.array_equal(bits(fused.multiply(values)), bits(whole.multiply(values)))


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
def test_every_source_type_is_packed_exactly(rng, device, source):
    values = torch.from_numpy(normal(rng, 20, 50) * 10.0 ** rng.integers(-6, 4, (20, 50)))
    values[0, :4] = torch.tensor([0.0, -0.0, torch.inf, 2.0**-24])  # the last is subnormal in float16
    values = values.to(getattr(torch, source))
    array = values.view(torch.int16).numpy().view(np.uint16) if source == "bfloat16" else values.numpy()
    result = packed(device, "f32", array).embed(np.arange(20, dtype=np.int32), 1.0)
    assert np.array_equal(bits(result), bits(values.float().numpy()))


def test_embedding_reads_rows_in_any_order(rng, device, number_format):
    matrix = normal(rng, 77, 45)
    ids = np.array([76, 0, 3, 3, 50], dtype=np.int32)
    result = packed(device, number_format, matrix).embed(ids, 2.5)
    assert np.array_equal(bits(result), bits(rounded(matrix[ids], number_format) * np.float32(2.5)))
