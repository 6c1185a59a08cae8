"""Distributions of the next token: from logits to log-probabilities, and the divergence of one from another."""

import numpy as np
from numpy.typing import NDArray


def log_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn logits into the logarithms of probabilities, in place.  # [tokens, vocab]"""
    for index, row in enumerate(logits):  # one at a time: the sums are in float64
        largest = row.max()
        logits[index] -= largest + np.log(np.exp(row.astype(np.float64) - largest).sum())
    return logits


def divergences(wanted: NDArray[np.float32], found: NDArray[np.float32]) -> NDArray[np.float64]:
    """Kullback-Leibler divergence of each position's distribution from the one that is wanted, in nats.  # [tokens]"""
    return np.array([_divergence(*rows) for rows in zip(wanted, found, strict=True)])


def _divergence(wanted: NDArray[np.float32], found: NDArray[np.float32]) -> float:
    """Return the divergence of one row.  # [vocab]"""
    return float((np.exp(wanted, dtype=np.float64) * (wanted.astype(np.float64) - found)).sum())
