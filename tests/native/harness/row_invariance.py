"""Row invariance: a row's result has the same bits whatever the other rows and the threads are."""

from collections.abc import Callable

import numpy as np

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.decoder.native import Device
from tests.native.harness.devices import EMULATION, is_cuda, make_device
from tests.native.harness.random_models import PagedDecoder, Row, random_tokens

COUNTS = [*range(1, 18), 24, 31, 32, 33, 257]
COUNTS_AROUND_TILES = [2, 7, 8, 9, 16, 17, 32, 33, 66]  # of the emulation, which is slow
THREADS = [1, 2, 3]
NUM_ROWS = max(COUNTS)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(np.ascontiguousarray(left).view(np.uint8), np.ascontiguousarray(right).view(np.uint8))


def assert_row_invariant(
    device_name: str, operation: Callable[[Device, np.ndarray], np.ndarray], seed: int = 0
) -> None:
    """`operation` computes the chosen ones of NUM_ROWS rows.  # [chosen, ...]"""
    rng = np.random.default_rng(seed)
    counts = COUNTS_AROUND_TILES if device_name == EMULATION else COUNTS
    rows = rng.permutation(NUM_ROWS)[: max(counts)]
    lone = make_device(device_name, threads=1)
    alone = np.concatenate([operation(lone, rows[[index]]) for index in range(len(rows))])
    assert len({row.tobytes() for row in alone}) > len(rows) // 2, "rows that are all alike prove nothing"
    for threads in (2,) if is_cuda(device_name) else (1, 3):  # a GPU's kernels run on none of the host's
        device = make_device(device_name, threads)
        for count in counts:
            chosen = rng.permutation(len(rows))[:count]
            assert same_bits(operation(device, rows[chosen]), alone[chosen]), f"{count} rows on {threads} threads"


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def prefill(decoder: PagedDecoder, chunk: int, sequence: int = 0) -> np.ndarray:
    """All logits of one sequence, computed in chunks.  # [positions, vocab]"""
    rows = [(sequence, position) for position in range(decoder.tokens.shape[1])]
    return np.concatenate([decoder.forward(rows[first : first + chunk]) for first in range(0, len(rows), chunk)])


def assert_any_chunks_are_alike(model: ModelConfig, device_name: str, weight_format: str, threads: int) -> None:
    """A sequence in chunks of any size gives the logits of one that is decoded row by row."""
    length, *chunks = (40, 7, 16) if device_name == EMULATION else (110, 7, 16, 33)
    tokens = random_tokens(model, 1, length)
    decoded = prefill(PagedDecoder(model, make_device(device_name, threads=1), weight_format, tokens=tokens), chunk=1)
    assert np.isfinite(decoded).all()
    for chunk in (length, *chunks):
        decoder = PagedDecoder(model, make_device(device_name, threads), weight_format, tokens=tokens, seed=chunk)
        assert same_bits(prefill(decoder, chunk), decoded), f"chunks of {chunk}"


def random_passes(rng: np.random.Generator, num_sequences: int, length: int) -> list[list[Row]]:
    """Passes that bring every sequence from 0 to `length`, in pieces of any size, their rows shuffled together."""
    reached, passes = [0] * num_sequences, []
    while min(reached) < length:
        ends = [min(length, start + int(rng.integers(0, 30))) for start in reached]
        pending = [list(range(start, end)) for start, end in zip(reached, ends, strict=True)]
        rows = []
        while any(pending):
            sequence = int(rng.choice([index for index, positions in enumerate(pending) if positions]))
            rows.append((sequence, pending[sequence].pop(0)))
        reached = ends
        passes += [rows] if rows else []
    return passes


def assert_any_mixture_is_alike(model: ModelConfig, device_name: str, weight_format: str, threads: int) -> None:
    """Sequences whose rows are mixed in any order give the logits of each alone."""
    sequences, length = (3, 40) if device_name == EMULATION else (5, 90)
    tokens = random_tokens(model, sequences, length)
    lone = PagedDecoder(model, make_device(device_name, threads=1), weight_format, tokens=tokens)
    alone = np.stack([prefill(lone, length, sequence) for sequence in range(sequences)])
    mixed = PagedDecoder(model, make_device(device_name, threads), weight_format, tokens=tokens, seed=threads)
    for rows in random_passes(np.random.default_rng(threads), sequences, length):
        for row, logits in zip(rows, mixed.forward(rows), strict=True):
            assert same_bits(logits, alone[row]), f"sequence and position {row}"
