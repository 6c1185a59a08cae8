"""Attention over a long context: the same bits however many rows there are, and however wide the tables."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import pytest

from services.engine.decoder.native import BLOCK_SIZE, Device
from services.engine.decoder.native.testing import KvLayer
from tests.native.harness.devices import in_every_kv_format, make_device

LENGTH = 610  # positions: two whole spans of a GPU and a part
BLOCKS = -(-LENGTH // BLOCK_SIZE)
NARROW, WIDE = BLOCKS, 640  # columns of the tables: beside wide ones, few rows have many spans
ASKED = [0, 31, 255, 256, 257, 258, 259, 511, 512, 607, 608, 609]


@dataclass
class Context:
    """One sequence in the cache, in scattered blocks among poisoned ones."""

    device: Device
    kv_format: str
    window: int
    softcap: float = 0.0
    head_dim: int = 24
    heads: int = 5  # that share one key
    stored: int = LENGTH

    def __post_init__(self) -> None:
        rng = np.random.default_rng(3)
        self.qkv = rng.standard_normal((LENGTH, (self.heads + 2) * self.head_dim)).astype(np.float32)
        self.blocks = rng.permutation(2 * BLOCKS)[:BLOCKS].astype(np.int32)
        self.cache = KvLayer(self.device, self.kv_format, num_blocks=2 * BLOCKS, num_kv_heads=1, head_dim=self.head_dim)
        self.rotated = self.store(range(self.stored))

    def store(self, rows: Seq[int]) -> np.ndarray:
        """The rows of `qkv`, their queries scaled."""
        return self.cache.rotate_and_store(
            self.qkv[rows],
            *self.places(rows, NARROW),
            angles=np.zeros((len(rows), 2, 0), np.float32),
            qk_norm="none",
            q_norm=None,
            k_norm=None,
            eps=1e-6,
            query_scale=self.head_dim**-0.5,
        )

    def places(self, rows: Seq[int], columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = np.zeros((1, columns), np.int32)
        table[0, :BLOCKS] = self.blocks
        return np.array(rows, np.int32), np.zeros(len(rows), np.int32), table

    def attend(self, rows: Seq[int], columns: int) -> np.ndarray:
        return self.cache.attention(
            self.rotated[rows], *self.places(rows, columns), window=self.window, softcap=self.softcap, format="f32"
        )

    def exact(self, row: int) -> np.ndarray:
        """In float64, for keys and values that are stored as they are."""
        heads = self.qkv.reshape(LENGTH, self.heads + 2, self.head_dim).astype(np.float64)
        first = max(0, row - self.window + 1) if self.window else 0
        keys, values = heads[first : row + 1, self.heads], heads[first : row + 1, self.heads + 1]
        scores = heads[row, : self.heads] * self.head_dim**-0.5 @ keys.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return ((weights / weights.sum(axis=1, keepdims=True)) @ values).reshape(-1)


def assert_same_bits(left: np.ndarray, right: np.ndarray, message: object = "") -> None:
    assert np.array_equal(left.view(np.uint32), right.view(np.uint32)), message


@in_every_kv_format
@pytest.mark.parametrize("window", [0, 300])
def test_rows_have_the_same_bits_alone_in_groups_and_together(device_name, kv_format, window):
    context = Context(make_device(device_name, threads=2), kv_format, window)
    expected = context.attend(ASKED, NARROW)
    for rows, columns in [(ASKED, WIDE), (ASKED[::-1], NARROW), *(([row], NARROW) for row in ASKED)]:
        chosen = [ASKED.index(row) for row in rows]
        assert_same_bits(context.attend(rows, columns), expected[chosen], (rows, columns))
    whole = context.attend(range(250, 290), WIDE)  # more partial results than a GPU keeps
    middle = [row for row in ASKED if 250 <= row < 290]
    assert_same_bits(whole[[row - 250 for row in middle]], expected[[ASKED.index(row) for row in middle]])


RUNS = [1, 5, 16, 40, 90]  # consecutive rows: a few queries of a GPU's tile, whole tiles, several at once


@in_every_kv_format
@pytest.mark.parametrize(
    "shape", [(24, 5, 0, 3.0), (64, 20, 70, 0.0), (128, 4, 0, 0.0), (512, 2, 300, 0.0), (24, 40, 0, 0.0)], ids=str
)
def test_rows_in_runs_of_any_length_have_the_same_bits(device_name, kv_format, shape):
    """Ends of runs, of windows and of spans fall into one another; nothing is stored after the last row."""
    head_dim, heads, window, softcap = shape
    device = make_device(device_name, threads=2)
    context = Context(device, kv_format, window, softcap, head_dim, heads, stored=302)
    expected = context.attend(range(212, 302), NARROW)
    assert np.isfinite(expected).all()
    for length in RUNS:
        for first in {212, max(212, 256 - length // 2), 302 - length}:
            rows = range(first, first + length)
            assert_same_bits(context.attend(rows, NARROW), expected[first - 212 :][:length], (first, length))


@in_every_kv_format
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_later_row_adds_nothing_to_earlier_rows(device_name, kv_format, value):
    context = Context(make_device(device_name, threads=2), kv_format, window=40)
    expected = context.attend(range(200, 300), NARROW)
    context.qkv[271, -context.head_dim :: 3] = value
    context.store([271])
    result = context.attend(range(200, 300), NARROW)
    assert_same_bits(result[: 271 - 200], expected[: 271 - 200])
    assert not np.isfinite(result[271 - 200 : 300 - 200]).all(axis=1).any()


@pytest.mark.parametrize("window", [0, 300])
def test_a_long_context_is_attended_to_exactly(device_name, window):
    context = Context(make_device(device_name, threads=2), "f32", window)
    result = context.attend(ASKED, NARROW)
    assert np.allclose(result, np.stack([context.exact(row) for row in ASKED]), rtol=0, atol=2e-6)
