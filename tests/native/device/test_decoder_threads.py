"""Decoders on threads of their own, as a target and a draft in one process have them, do not meet."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from tests.native.harness.devices import make_device
from tests.native.harness.random_models import MODELS, PagedDecoder, random_tokens

NUM_THREADS, LENGTH = 3, 36  # tokens: the second block is begun


def test_decoders_on_threads_give_what_each_gives_alone(device_name):
    config = MODELS["plain"]
    tokens = random_tokens(config, 1, LENGTH)
    together = Barrier(NUM_THREADS)

    def decode() -> np.ndarray:
        """Handed over between threads: made on this one, and used on another."""
        paged = PagedDecoder(config, make_device(device_name, threads=2), "bf16", tokens=tokens)
        together.wait()
        return np.concatenate([paged.forward([(0, position)]) for position in range(LENGTH)])

    with ThreadPoolExecutor(NUM_THREADS) as threads:
        results = [future.result() for future in [threads.submit(decode) for _ in range(NUM_THREADS)]]
    alone = PagedDecoder(config, make_device(device_name, threads=1), "bf16", tokens=tokens)
    expected = np.concatenate([alone.forward([(0, position)]) for position in range(LENGTH)])
    for result in results:
        assert np.array_equal(result.view(np.uint32), expected.view(np.uint32))
