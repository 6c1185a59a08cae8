"""The formulas of norms in float64."""

import numpy as np


def rms_norm(values: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    values = values.astype(np.float64)
    return values / np.sqrt((values**2).mean(-1, keepdims=True) + eps) * weight


def layer_norm(values: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    values = values.astype(np.float64)
    return rms_norm(values - values.mean(-1, keepdims=True), weight, eps)
