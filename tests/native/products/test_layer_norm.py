"""Layer norms: their formula, a row's bits in any company, and the settings that they do not support."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.engine.decoder.native import DecoderConfig, Device
from services.engine.decoder.native.testing import Operations
from tests.native.harness.devices import make_device
from tests.native.harness.norms import layer_norm
from tests.native.harness.random_models import PLAIN
from tests.native.harness.row_invariance import NUM_ROWS, assert_row_invariant, normal


@pytest.mark.parametrize("width", [1, 33, 300, 5000])
@pytest.mark.parametrize("has_bias", [False, True])
def test_residual_layer_norm(device_name, width, has_bias):
    """For values whose mean is far from 0: it is subtracted before squares are summed."""
    residual, delta = 20.0 + normal(4, width), normal(4, width, seed=1)
    norm, bias = normal(width, seed=2), normal(width, seed=3)
    norms: dict[str, Any] = {"kind": "layer", "norm_bias": bias if has_bias else None}
    device = make_device(device_name, threads=2)
    total, result = Operations.residual_norm(device, residual, delta, None, norm, eps=1e-3, format="f32", **norms)
    assert np.array_equal(total, residual + delta)
    expected = layer_norm(total, norm, 1e-3) + (bias if has_bias else 0.0)
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_each_row_has_the_same_bits_in_any_company(device_name, number_format):
    residual, delta = normal(NUM_ROWS, 301), normal(NUM_ROWS, 301, seed=1)
    norm = normal(301, seed=2)
    norms: dict[str, Any] = {"kind": "layer", "norm_bias": normal(301, seed=3)}

    def add_and_normalise(device: Device, chosen: np.ndarray) -> np.ndarray:
        both = Operations.residual_norm(
            device, residual[chosen], delta[chosen], None, norm, eps=1e-6, format=number_format, **norms
        )
        return np.stack(both, axis=1)

    assert_row_invariant(device_name, add_and_normalise)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "mean"}, 'norm is "mean"; it must be one of "rms", "layer"'),
        ({"norm_bias": True}, 'norm_bias is true; it must be false where norm is "rms"'),
        ({"norm": "layer", "post_norm": True}, 'post_norm is true; it must be false where norm is "layer"'),
        ({"norm": "layer", "qk_norm": "full"}, 'qk_norm is "full"; it must be "none", "head" or "each"'),
    ],
)
def test_layer_norm_configurations_without_kernel_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        DecoderConfig(replace(PLAIN, **changes))
