"""Row invariance: what is computed for a row has the same bits whatever the other rows and the threads are."""

from collections.abc import Callable

import numpy as np

from services.engine.decoder.native import Device
from tests.native.devices import is_cuda, make_device

COUNTS = [*range(1, 34), 257]
THREADS = [1, 2, 3]
NUM_ROWS = max(COUNTS)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(np.ascontiguousarray(left).view(np.uint8), np.ascontiguousarray(right).view(np.uint8))


def assert_row_invariant(
    device_name: str, operation: Callable[[Device, np.ndarray], np.ndarray], seed: int = 0
) -> None:
    """`operation` computes the chosen ones of NUM_ROWS rows.  # [chosen, ...]"""
    lone = make_device(device_name, threads=1)
    alone = np.concatenate([operation(lone, np.array([row])) for row in range(NUM_ROWS)])
    assert len({row.tobytes() for row in alone}) > NUM_ROWS // 2, "rows that are all alike prove nothing"
    rng = np.random.default_rng(seed)
    for threads in THREADS[1:2] if is_cuda(device_name) else THREADS:  # a GPU's kernels run on none of the host's
        device = make_device(device_name, threads)
        for count in COUNTS:
            chosen = rng.permutation(NUM_ROWS)[:count]
            assert same_bits(operation(device, chosen), alone[chosen]), f"{count} rows on {threads} threads"


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
