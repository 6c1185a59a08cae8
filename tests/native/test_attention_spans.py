"""Attention over a long context: the same bits however many rows there are, and however wide the tables."""

from dataclasses import dataclass

import numpy as np
import pytest

from services.engine.native import BLOCK_SIZE, Device, KvLayer
from tests.native.devices import make_device

LENGTH, HEAD_DIM, HEADS = 610, 24, 5  # positions: two whole spans of a GPU and a part; heads that share one key
BLOCKS = -(-LENGTH // BLOCK_SIZE)
NARROW, WIDE = BLOCKS, 640  # columns of the tables: beside wide ones, few rows have many spans
ASKED = [0, 31, 255, 256, 257, 258, 259, 511, 512, 607, 608, 609]


@dataclass
class Context:
    """One sequence in the cache, in scattered blocks among poisoned ones."""

    device: Device
    kv_format: str
    window: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(3)
        self.qkv = rng.standard_normal((LENGTH, (HEADS + 2) * HEAD_DIM)).astype(np.float32)
        self.blocks = rng.permutation(2 * BLOCKS)[:BLOCKS].astype(np.int32)
        self.cache = KvLayer(self.device, self.kv_format, num_blocks=2 * BLOCKS, num_kv_heads=1, head_dim=HEAD_DIM)
        self.rotated = self.cache.rotate_and_store(
            self.qkv,
            *self.places(list(range(LENGTH)), NARROW),
            angles=np.zeros((LENGTH, 2, 0), np.float32),
            qk_norm="none",
            q_norm=None,
            k_norm=None,
            eps=1e-6,
            query_scale=HEAD_DIM**-0.5,
        )

    def places(self, rows: list[int], columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = np.zeros((1, columns), np.int32)
        table[0, :BLOCKS] = self.blocks
        return np.array(rows, np.int32), np.zeros(len(rows), np.int32), table

    def attend(self, rows: list[int], columns: int) -> np.ndarray:
        return self.cache.attention(
            self.rotated[rows], *self.places(rows, columns), window=self.window, softcap=0.0, format="f32"
        )

    def exact(self, row: int) -> np.ndarray:
        """In float64, for keys and values that are stored as they are."""
        heads = self.qkv.reshape(LENGTH, HEADS + 2, HEAD_DIM).astype(np.float64)
        first = max(0, row - self.window + 1) if self.window else 0
        keys, values = heads[first : row + 1, HEADS], heads[first : row + 1, HEADS + 1]
        scores = heads[row, :HEADS] * HEAD_DIM**-0.5 @ keys.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return ((weights / weights.sum(axis=1, keepdims=True)) @ values).reshape(-1)


@pytest.mark.parametrize("window", [0, 300])
def test_rows_alone_in_groups_and_all_together_have_the_same_bits(device_name, kv_format, window):
    context = Context(make_device(device_name, threads=2), kv_format, window)
    expected = context.attend(ASKED, NARROW)
    for rows, columns in [(ASKED, WIDE), (ASKED[::-1], NARROW), *(([row], NARROW) for row in ASKED)]:
        chosen = [ASKED.index(row) for row in rows]
        result = context.attend(rows, columns)
        assert np.array_equal(result.view(np.uint32), expected[chosen].view(np.uint32)), (rows, columns)
    whole = context.attend(list(range(250, 290)), WIDE)  # more partial results than a GPU keeps
    middle = [row for row in ASKED if 250 <= row < 290]
    assert np.array_equal(
        whole[[row - 250 for row in middle]].view(np.uint32),
        expected[[ASKED.index(row) for row in middle]].view(np.uint32),
    )


@pytest.mark.parametrize("window", [0, 300])
def test_a_long_context_is_attended_to_exactly(device_name, window):
    context = Context(make_device(device_name, threads=2), "f32", window)
    result = context.attend(ASKED, NARROW)
    assert np.allclose(result, np.stack([context.exact(row) for row in ASKED]), rtol=0, atol=2e-6)
