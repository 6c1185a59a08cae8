"""Row invariance: a row has the same bits with any other rows, in any number and order, on any number of threads."""

from dataclasses import dataclass

import numpy as np
import pytest

from services.engine.decoder.native import Device
from services.engine.decoder.native.testing import KvLayer, Operations, PackedWeight, poison
from tests.native.harness.devices import EMULATION, in_every_kv_format, in_every_weight_format, make_device, on_cpus
from tests.native.harness.grouped import KINDS, packed, random_rows
from tests.native.harness.random_models import MODELS, PLAIN, PagedDecoder, random_tokens
from tests.native.harness.row_invariance import (
    COUNTS,
    NUM_ROWS,
    THREADS,
    assert_any_chunks_are_alike,
    assert_any_mixture_is_alike,
    assert_row_invariant,
    normal,
    prefill,
    same_bits,
)


def test_the_check_sees_one_ulp_that_depends_on_the_row_count(device_name):
    values = normal(NUM_ROWS, 40)
    with pytest.raises(AssertionError, match=r"2 rows on [12] threads"):
        assert_row_invariant(device_name, lambda _, chosen: np.nextafter(values[chosen], np.float32(len(chosen) > 1)))


@in_every_weight_format
@pytest.mark.parametrize(
    ("outputs", "inputs"), [(1, 1), (64, 32), (33, 257), (100, 70), (130, 600), (20, 9000), (300, 70)]
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_product(device_name, weight_format, outputs, inputs, has_bias):
    matrix, values = normal(outputs, inputs), normal(NUM_ROWS, inputs, seed=1)
    bias = normal(outputs, seed=2) if has_bias else None
    stored: dict[Device, PackedWeight] = {}

    def multiply(device: Device, chosen: np.ndarray) -> np.ndarray:
        if device not in stored:
            stored[device] = PackedWeight(device, weight_format, outputs, inputs)
            stored[device].store(0, matrix)
        return stored[device].multiply(values[chosen], bias)

    assert_row_invariant(device_name, multiply)


@on_cpus
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("outputs", "blocks"), [(100, 3), (130, 20)])
def test_grouped_product(device_name, kind, outputs, blocks):
    rows, values = random_rows(kind, outputs, blocks * kind.block), normal(NUM_ROWS, blocks * kind.block, seed=1)
    stored: dict[Device, PackedWeight] = {}

    def multiply(device: Device, chosen: np.ndarray) -> np.ndarray:
        if device not in stored:
            stored[device] = packed(device, kind, rows)
        return stored[device].multiply(values[chosen])

    assert_row_invariant(device_name, multiply)


@in_every_weight_format
def test_embedding(device_name, weight_format):
    matrix = normal(NUM_ROWS, 45)
    stored: dict[Device, PackedWeight] = {}

    def embed(device: Device, chosen: np.ndarray) -> np.ndarray:
        if device not in stored:
            stored[device] = PackedWeight(device, weight_format, *matrix.shape)
            stored[device].store(0, matrix)
        return stored[device].embed(chosen, 1.7)

    assert_row_invariant(device_name, embed)


@pytest.mark.parametrize("width", [16, 70, 301])
@pytest.mark.parametrize("has_delta_norm", [False, True])
def test_residual_norm(device_name, number_format, width, has_delta_norm):
    residual, delta = normal(NUM_ROWS, width), normal(NUM_ROWS, width, seed=1)
    norm, delta_norm = normal(width, seed=2), normal(width, seed=3) if has_delta_norm else None

    def add_and_normalise(device: Device, chosen: np.ndarray) -> np.ndarray:
        both = Operations.residual_norm(
            device, residual[chosen], delta[chosen], delta_norm, norm, eps=1e-6, format=number_format
        )
        return np.stack(both, axis=1)

    assert_row_invariant(device_name, add_and_normalise)


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "clamped_swiglu"])
@pytest.mark.parametrize("width", [1, 70, 1100])
def test_activate(device_name, number_format, activation, width):
    gate_up = 4.0 * normal(NUM_ROWS, 2 * width)
    assert_row_invariant(
        device_name,
        lambda device, chosen: Operations.activate(device, gate_up[chosen], activation, format=number_format),
    )


def test_soft_cap(device_name):
    values = 10.0 * normal(NUM_ROWS, 83)
    assert_row_invariant(device_name, lambda device, chosen: Operations.soft_cap(device, values[chosen], 5.0))


def test_rotary_angles(device_name):
    positions = np.random.default_rng(0).integers(0, 100_000, NUM_ROWS, dtype=np.int32)
    frequencies = np.float32(1e4) ** (-np.arange(19, dtype=np.float32) / 19)
    assert_row_invariant(
        device_name, lambda device, chosen: Operations.rotary_angles(device, positions[chosen], frequencies, 1.1)
    )


LENGTHS = (150, 70, 37)


@dataclass
class AttentionRows:
    """NUM_ROWS rows of three sequences, whose blocks lie scattered among poisoned ones."""

    head_dim: int
    group: int
    window: int
    softcap: float
    NUM_BLOCKS = 30

    def __post_init__(self) -> None:
        assert sum(LENGTHS) == NUM_ROWS
        self.sequences = np.repeat(np.arange(3), LENGTHS).astype(np.int32)
        self.positions = np.concatenate([np.arange(length) for length in LENGTHS]).astype(np.int32)
        self.block_tables = np.random.default_rng(1).permutation(self.NUM_BLOCKS)[:15].reshape(3, 5).astype(np.int32)
        self.qkv = 2.0 * normal(NUM_ROWS, 2 * (self.group + 2) * self.head_dim)

    def cache(self, device: Device, kv_format: str) -> KvLayer:
        return KvLayer(device, kv_format, num_blocks=self.NUM_BLOCKS, num_kv_heads=2, head_dim=self.head_dim)

    def store(self, device: Device, cache: KvLayer, chosen: np.ndarray) -> np.ndarray:
        frequencies = np.float32(100.0) ** (-np.arange(self.head_dim // 2, dtype=np.float32) * 2 / self.head_dim)
        return cache.rotate_and_store(
            self.qkv[chosen],
            *self.places(chosen),
            angles=Operations.rotary_angles(device, self.positions[chosen], frequencies, 1.0),
            qk_norm="head",
            q_norm=normal(self.head_dim, seed=4),
            k_norm=normal(self.head_dim, seed=5),
            eps=1e-6,
            query_scale=self.head_dim**-0.5,
        )

    def attend(self, cache: KvLayer, rotated: np.ndarray, chosen: np.ndarray, number_format: str) -> np.ndarray:
        return cache.attention(
            rotated, *self.places(chosen), window=self.window, softcap=self.softcap, format=number_format
        )

    def places(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.positions[chosen], self.sequences[chosen], self.block_tables


@pytest.fixture(
    params=[(16, 1, 0, 0.0), (32, 2, 5, 0.0), (64, 4, 40, 3.0), (80, 8, 0, 3.0), (128, 2, 64, 0.0), (20, 3, 33, 0.0)],
    ids=lambda param: "head_dim {} group {} window {} softcap {}".format(*param),
)
def attention_rows(request) -> AttentionRows:
    return AttentionRows(*request.param)


@in_every_kv_format
def test_rotate_and_store(device_name, kv_format, attention_rows):
    def store(device: Device, chosen: np.ndarray) -> np.ndarray:
        return attention_rows.store(device, attention_rows.cache(device, kv_format), chosen)

    assert_row_invariant(device_name, store)


@in_every_kv_format
def test_attention(device_name, kv_format, attention_rows):
    stored: dict[Device, tuple[KvLayer, np.ndarray]] = {}

    def attend(device: Device, chosen: np.ndarray) -> np.ndarray:
        if device not in stored:
            cache = attention_rows.cache(device, kv_format)
            stored[device] = cache, attention_rows.store(device, cache, np.arange(NUM_ROWS))
        cache, rotated = stored[device]
        return attention_rows.attend(cache, rotated[chosen], chosen, "f32")

    assert_row_invariant(device_name, attend)


@in_every_kv_format
def test_attention_sees_no_later_position(device_name, kv_format, attention_rows):
    """Decoding, where later slots still hold NaN, gives the bits of a prefill, where they hold the future."""
    device, rows = make_device(device_name, threads=1), attention_rows
    every = np.arange(LENGTHS[0] if device_name == EMULATION else 0, NUM_ROWS)  # which is slow: the shorter sequences
    whole = rows.cache(device, kv_format)
    prefilled = rows.attend(whole, rows.store(device, whole, every), every, "bf16")
    growing = rows.cache(device, kv_format)
    for row, expected in zip(every, prefilled, strict=True):
        one = np.array([row])
        decoded = rows.attend(growing, rows.store(device, growing, one), one, "bf16")
        assert same_bits(decoded[0], expected), f"row {row}"


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@in_every_weight_format
def test_every_chunking_gives_the_same_logits(device_name, weight_format):
    tokens = random_tokens(PLAIN, 1, NUM_ROWS)
    decoded = prefill(PagedDecoder(PLAIN, make_device(device_name, threads=1), weight_format, tokens=tokens), chunk=1)
    assert np.isfinite(decoded).all()
    around_tiles = (2, 8, 9, 16, 17, 33, NUM_ROWS)  # of the emulation, which is slow
    for chunk in around_tiles if device_name == EMULATION else COUNTS[1:]:
        decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), weight_format, tokens=tokens, seed=chunk)
        assert same_bits(prefill(decoder, chunk), decoded), f"chunks of {chunk}"


@in_every_weight_format
@pytest.mark.parametrize("threads", THREADS)
def test_every_model_gives_the_same_logits_in_any_chunks(device_name, weight_format, model, threads):
    assert_any_chunks_are_alike(model, device_name, weight_format, threads)


@in_every_weight_format
@pytest.mark.parametrize("threads", THREADS)
def test_mixed_sequences_give_the_logits_of_each_alone(device_name, weight_format, model, threads):
    assert_any_mixture_is_alike(model, device_name, weight_format, threads)


@in_every_weight_format
def test_rejected_predictions_leave_no_trace(device_name, weight_format):
    """Rows written for wrong predictions are overwritten; what was beyond the commit is never read."""
    tokens = random_tokens(PLAIN, 1, 48)
    expected = prefill(PagedDecoder(PLAIN, make_device(device_name, threads=1), weight_format, tokens=tokens), chunk=48)
    decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), weight_format, tokens=tokens.copy())
    for position in range(12 if device_name == EMULATION else 40):
        decoder.tokens[0, position + 1 : position + 8] = (tokens[0, position + 1 : position + 8] + 1) % 150
        verified = decoder.forward([(0, ahead) for ahead in range(position, position + 8)])
        assert same_bits(verified[0], expected[position])
        assert not same_bits(verified[1], expected[position + 1])
        decoder.tokens[0, position + 1] = tokens[0, position + 1]


@in_every_weight_format
def test_token_position_history_and_blocks_change_a_rows_bits(device_name, weight_format):
    """Its own token, its position, an earlier token, and the blocks that hold its past."""
    tokens = random_tokens(PLAIN, 1, 50)

    def last_logits(changed: np.ndarray, *, is_poisoned: bool = False) -> np.ndarray:
        decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), weight_format, tokens=changed)
        prefill(decoder, chunk=50)
        if is_poisoned:
            poison(decoder.decoder, [int(decoder.batch.block_tables[0, 0])])
        return decoder.forward([(0, 49)])

    expected = last_logits(tokens)
    for position in (32, 49) if device_name == EMULATION else (0, 31, 32, 49):
        changed = tokens.copy()
        changed[0, position] = (changed[0, position] + 1) % 150
        assert not same_bits(last_logits(changed), expected)
    assert not same_bits(last_logits(tokens[:, [1, 0, *range(2, 50)]]), expected)
    assert np.isnan(last_logits(tokens, is_poisoned=True)).all()
