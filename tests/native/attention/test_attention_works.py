"""Attention whose work is split among many blocks: a row has the bits that a single block gives it."""

from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.engine.decoder.native import BLOCK_SIZE, Decoder, DecoderConfig, Device
from services.engine.decoder.native.testing import KvLayer
from tests.harness.further import further
from tests.native.harness.devices import (
    count_arrivals,
    count_launches,
    emulated_device,
    make_device,
    needs_emulation,
    on_cuda,
)
from tests.native.harness.random_models import PLAIN
from tests.native.harness.row_invariance import same_bits

pytestmark = needs_emulation

SPAN = 8 * BLOCK_SIZE  # positions
MOST_SPANS = 512
STORED = 40  # blocks, which lie in the tables again and again
KV_FORMATS = ["f32", "bf16", "int8", "fp8"]
Place = tuple[int, int]
"""A sequence, and a position."""


class Contexts:
    """Sequences of any length, whose keys and values are a few blocks in an order of each sequence's own."""

    def __init__(
        self,
        device: Device,
        kv_format: str,
        *,
        heads: int = 2,
        head_dim: int = 16,
        window: int = 0,
        has_sinks: bool = False,
        latent_rank: int = 0,
    ) -> None:
        rng = np.random.default_rng(7)
        width = (heads + (0 if latent_rank else 2)) * head_dim
        self._window = window
        self._sinks = np.linspace(-1.0, 8.0, heads, dtype=np.float32) if has_sinks else None
        self._queries = rng.standard_normal((97, width)).astype(np.float32)
        self._tables = rng.integers(0, STORED, (8, MOST_SPANS * SPAN // BLOCK_SIZE), dtype=np.int32)
        self._cache = KvLayer(
            device, kv_format, num_blocks=STORED, num_kv_heads=1, head_dim=head_dim, latent_rank=latent_rank
        )
        positions = np.arange(STORED * BLOCK_SIZE, dtype=np.int32)
        if latent_rank:
            count, turning = len(positions), head_dim - latent_rank
            self._cache.store_latents(
                rng.standard_normal((count, head_dim)).astype(np.float32),
                np.zeros((count, 1, turning), np.float32),
                np.zeros((count, head_dim), np.float32),
                positions,
                np.zeros(count, np.int32),
                np.arange(STORED, dtype=np.int32)[None],
                angles=rng.standard_normal((count, 2, turning // 2)).astype(np.float32),
                norm=np.ones(latent_rank, np.float32),
                eps=1e-6,
                query_scale=1.0,
            )
            return
        self._cache.rotate_and_store(
            rng.standard_normal((len(positions), width)).astype(np.float32),
            positions,
            np.zeros(len(positions), np.int32),
            np.arange(STORED, dtype=np.int32)[None],
            angles=np.zeros((len(positions), 2, 0), np.float32),
            qk_norm="none",
            q_norm=None,
            k_norm=None,
            eps=1e-6,
            query_scale=1.0,
        )

    def attend(self, places: Seq[Place], spans: int = MOST_SPANS) -> np.ndarray:
        """With tables of so many spans."""
        sequences, positions = np.array(places, np.int32).T
        return self._cache.attention(
            self._queries[positions % 97] * np.float32(0.3),
            np.ascontiguousarray(positions),
            np.ascontiguousarray(sequences),
            np.ascontiguousarray(self._tables[:, : spans * SPAN // BLOCK_SIZE]),
            window=self._window,
            softcap=0.0,
            format="f32",
            sinks=self._sinks,
        )

    def attend_whole(self, places: Seq[Place]) -> np.ndarray:
        """Each context by one block: beside three more of the longest, two blocks have enough of whole ones."""
        before = count_arrivals()
        longest = max(places, key=lambda place: place[1])[0]
        result = self.attend([*places, *[place for place in places if place[0] == longest] * 3])
        assert count_arrivals() == before
        return result[: len(places)]


def last_of(spans: int) -> int:
    """The last position but one of so many spans."""
    return spans * SPAN - 2


def expected_of(places: Seq[Place], kv_format: str, **shape: Any) -> np.ndarray:
    return Contexts(emulated_device(1, multiprocessors=1), kv_format, **shape).attend_whole(places)


def parts_merged(contexts: Contexts, places: Seq[Place], expected: np.ndarray, spans: int = MOST_SPANS) -> int:
    before = count_arrivals()
    assert same_bits(contexts.attend(places, spans), expected)
    return count_arrivals() - before


def mixed(most: int) -> list[Place]:
    return [(0, last_of(1)), (1, last_of(31)), (2, last_of(most))]


def num_parts(multiprocessors: int, most: int) -> int:
    """Stretches of the longer two, or else spans of these; a context of one span is no part."""
    stretches = -(-most // 8) + 4
    return stretches if multiprocessors == 6 else most + 31 + stretches


# In the formats that go through an emulated tensor core, the longest context takes seconds.
@pytest.mark.parametrize(
    ("kv_format", "most"),
    [("f32", 512), ("bf16", 96), *(pytest.param(each, 96, marks=pytest.mark.exhaustive) for each in ("int8", "fp8"))],
)
def test_mixed_contexts_are_cut_into_parts_and_keep_their_bits(kv_format, most):
    places = mixed(most)
    expected = expected_of(places, kv_format)
    for multiprocessors in (6, 6, 132):  # what counts parts is as it was before
        contexts = Contexts(emulated_device(1, multiprocessors=multiprocessors), kv_format)
        assert parts_merged(contexts, places, expected) == num_parts(multiprocessors, most)


@pytest.mark.parametrize("kv_format", KV_FORMATS)
def test_latent_vectors_are_read_in_parts_and_keep_their_bits(kv_format):
    """Rows of many heads, in groups of ten, and those of four heads, with others."""
    places = [*mixed(33), (3, 0), *((4, last_of(9) + row) for row in range(6))]
    for heads, head_dim, rank in ((20, 96, 64), (4, 160, 128)):
        shape = {"heads": heads, "head_dim": head_dim, "latent_rank": rank}
        expected = Contexts(emulated_device(1, multiprocessors=1), kv_format, **shape).attend(places)
        assert expected.shape == (len(places), heads * rank)
        assert np.isfinite(expected).all()
        for multiprocessors in (6, 132):
            contexts = Contexts(emulated_device(1, multiprocessors=multiprocessors), kv_format, **shape)
            before = count_arrivals()
            assert same_bits(contexts.attend(places[::-1]), expected[::-1])
            assert count_arrivals() > before
            assert same_bits(np.concatenate([contexts.attend([place]) for place in places[-4:]]), expected[-4:])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kv_format", KV_FORMATS)
@pytest.mark.parametrize(("heads", "head_dim", "window"), [(1, 24, 0), (8, 128, 0), (20, 64, 30_000), (3, 20, 5000)])
def test_the_longest_contexts_of_any_shape(kv_format, heads, head_dim, window):
    places = [*mixed(MOST_SPANS), (3, 100), (3, 101), *((4, last_of(77) + row) for row in range(9))]
    shape = {"heads": heads, "head_dim": head_dim, "window": window}
    expected = expected_of(places, kv_format, **shape)
    for multiprocessors in (6, 108, 132, 148):
        contexts = Contexts(emulated_device(1, multiprocessors=multiprocessors), kv_format, **shape)
        for chosen in (places, places[::-1]):
            assert same_bits(contexts.attend(chosen), expected[[places.index(place) for place in chosen]])


@pytest.mark.parametrize("kv_format", ["f32", "bf16"])
def test_sinks_are_in_each_softmax_once(kv_format):
    places = [(0, 100), (1, last_of(1)), (2, last_of(31))]
    expected = expected_of(places, kv_format, has_sinks=True)
    contexts = Contexts(emulated_device(1, multiprocessors=148), kv_format, has_sinks=True)
    assert parts_merged(contexts, places, expected) == 31 + 4
    without = Contexts(emulated_device(1), kv_format).attend(places)
    share = expected[:, 16:] / without[:, 16:]  # of all positions, beside the sink of the second head
    assert (np.abs(share - share[:, :1]) < 1e-3).all()
    assert (np.diff(share[:, 0]) > 0).all()  # the more positions, the less has the sink
    assert (share < 1).all()


@pytest.mark.parametrize("spans", [1, 31])
def test_tables_of_few_spans(spans):
    places = [(sequence, last_of(spans) - 40 * sequence) for sequence in range(3)]
    expected = expected_of(places, "bf16")
    contexts = Contexts(emulated_device(1, multiprocessors=148), "bf16")
    assert parts_merged(contexts, places, expected, spans) == (0 if spans == 1 else 3 * (31 + 4))


PROMPTS: list[Place] = [
    *((0, 2020 + row) for row in range(70)),  # over the end of a stretch
    (1, last_of(3)),
    *((2, 40 + row) for row in range(9)),
    (3, 0),
    *((4, last_of(10) + row) for row in range(20)),
]


@pytest.mark.parametrize(
    ("kv_format", "heads", "head_dim", "window", "has_sinks"),
    [
        ("bf16", 1, 16, 0, False),
        ("bf16", 4, 128, 0, True),
        ("fp8", 3, 80, 700, False),
        further("int8", 4, 128, 0, False),
        further("bf16", 20, 40, 300, False),
    ],
)
def test_mixed_attention_gives_the_bits_of_few_rows_at_a_time(kv_format, heads, head_dim, window, has_sinks):
    shape: dict[str, Any] = {"heads": heads, "head_dim": head_dim, "window": window, "has_sinks": has_sinks}
    few = Contexts(emulated_device(1), kv_format, **shape)
    expected = np.concatenate([few.attend(PROMPTS[first : first + 20]) for first in range(0, len(PROMPTS), 20)])
    for multiprocessors in (1, 132):
        many = Contexts(emulated_device(1, multiprocessors=multiprocessors), kv_format, **shape)
        before = count_launches()
        result = many.attend(PROMPTS)
        assert any("MixedAttention" in kernel for kernel in count_launches() - before)
        assert same_bits(result, expected), multiprocessors


def test_groups_without_room_for_their_parts_are_not_cut():
    """Where rows are many, groups have up to a hundred, and here 32."""
    firsts = [(0, 246 * 32), (1, 670 * 32), (2, 0)]
    places = [(sequence, first + row) for sequence, first in firsts for row in range(32)]
    expected = expected_of(places, "bf16", heads=1)
    contexts = Contexts(emulated_device(1, multiprocessors=132), "bf16", heads=1)
    of_the_second = 84 + 11
    assert 32 * (31 + 4) < 4096 < 32 * (31 + 4 + of_the_second)
    assert parts_merged(contexts, places, expected) == 31 + 4


@pytest.mark.parametrize("kv_format", ["f32", "bf16"])
def test_the_widest_heads_fit_into_the_smallest_gpus_blocks(kv_format):
    """Ada and consumers' Blackwell, and A100."""
    places = [(0, SPAN - 30 + row) for row in range(66)]
    for head_dim, least in ((256, 99), (512, 163)):
        large, small = (
            Contexts(emulated_device(1, block_memory=size), kv_format, heads=1, head_dim=head_dim).attend(
                places, spans=2
            )
            for size in (227, least)
        )
        assert same_bits(small, large)


@pytest.mark.parametrize("kv_format", KV_FORMATS)
def test_the_widest_latent_vectors_fit_into_blocks(kv_format):
    shape = {"heads": 16, "head_dim": 640, "latent_rank": 512}
    large, small = (
        Contexts(emulated_device(1, block_memory=size), kv_format, **shape).attend([(0, 40), (1, 300)], spans=2)
        for size in (227, 184)
    )
    assert same_bits(small, large)


def test_heads_that_do_not_fit_into_a_gpus_blocks_are_refused():
    config, small = DecoderConfig(replace(PLAIN, head_dim=264)), emulated_device(1, block_memory=99)
    with pytest.raises(ValueError, match=r"^head_dim is 264; device cuda-\w+ handles at most 256$"):
        Decoder(small, config, weights="f32", kv="f32")


@on_cuda
@pytest.mark.parametrize("kv_format", ["f32", "bf16"])
def test_a_window_begins_amid_a_stretch(device_name, kv_format):
    """Only the last spans of a long context are computed at all."""
    places = [(2, last_of(500)), (2, last_of(500) + 1), (1, last_of(20))]
    expected = expected_of(places, kv_format, window=4000)
    contexts = Contexts(make_device(device_name, threads=1), kv_format, window=4000)
    assert same_bits(contexts.attend(places), expected)
