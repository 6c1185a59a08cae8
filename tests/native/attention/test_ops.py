"""Each native operation computes its formula: compared with the same formula in float64."""

import numpy as np
import pytest
import torch

from services.engine.decoder.native import BLOCK_SIZE, Device
from services.engine.decoder.native.testing import KvLayer, Operations, PackedWeight
from tests.native.harness.devices import in_every_kv_format, is_cuda, make_device, on_cpus
from tests.native.harness.norms import layer_norm, rms_norm
from tests.native.harness.rounding import bits, rounded

RNG = np.random.default_rng(11)
FRESH_STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order_of_tests():
    RNG.bit_generator.state = FRESH_STATE


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def device(device_name: str) -> Device:
    return make_device(device_name, threads=2)


def test_rounding_to_bfloat16_is_to_nearest_even(device):
    """Ties, overflow to infinity, and NaN of every payload included."""
    values = RNG.integers(0, 2**32, 4000, dtype=np.uint32)
    values[:1000] = values[:1000] & 0xFFFF0000 | 0x8000
    values[1000] = 0x7F7FFFFF
    values[1001:1003] = 0x7FFFFFFF, 0xFF800001
    values = values.view(np.float32)
    values = values[(np.abs(values) >= 2.0**-126) | np.isnan(values)][None]  # instruction sets may flush subnormals
    (_, result) = Operations.residual_norm(device, values, None, None, None, eps=0.0, format="bf16")
    expected = rounded(values, "bf16")
    assert np.array_equal(np.isnan(result), np.isnan(expected))
    assert np.array_equal(bits(result[~np.isnan(result)]), bits(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("width", [1, 16, 33, 128, 300])
@pytest.mark.parametrize("has_delta", [False, True])
@pytest.mark.parametrize("has_delta_norm", [False, True])
@pytest.mark.parametrize("has_norm", [False, True])
def test_residual_norm(device, width, has_delta, has_delta_norm, has_norm):
    residual, delta, delta_norm, norm = normal(4, width), normal(4, width), normal(width), normal(width)
    eps = 1e-3
    total, result = Operations.residual_norm(
        device,
        residual,
        delta if has_delta else None,
        delta_norm if has_delta_norm else None,
        norm if has_norm else None,
        eps=eps,
        format="f32",
    )
    addend = rms_norm(delta, delta_norm, eps) if has_delta_norm else delta
    expected = residual + addend if has_delta else residual
    np.testing.assert_allclose(total, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result, rms_norm(expected, norm, eps) if has_norm else expected, rtol=2e-6, atol=2e-6)


def test_soft_cap(device):
    values = np.concatenate([np.linspace(-40, 40, 5001), [1e-20, 1e30, -np.inf]]).astype(np.float32)
    expected = 7.0 * np.tanh(values.astype(np.float64) / 7.0)
    np.testing.assert_allclose(Operations.soft_cap(device, values, 7.0), expected, rtol=1e-6, atol=0)
    assert np.isnan(Operations.soft_cap(device, np.full(3, np.nan, np.float32), 7.0)).all()


def test_rotary_angles(device):
    positions = np.array([0, 1, 7, 500, 131_071, 1_000_003], dtype=np.int32)
    frequencies = np.float32(10_000.0) ** (-np.arange(21, dtype=np.float32) / 21)
    result = Operations.rotary_angles(device, positions, frequencies, 1.25)
    angles = (positions.astype(np.float32)[:, None] * frequencies).astype(np.float64)
    np.testing.assert_allclose(result, 1.25 * np.stack([np.cos(angles), np.sin(angles)], axis=1), rtol=0, atol=1.5e-7)


class AttentionCase:
    """Two sequences in scattered blocks, and attention over them in float64."""

    LENGTHS = (75, 33)

    def __init__(
        self,
        *,
        head_dim: int,
        group: int,
        window: int,
        softcap: float,
        rotary_dim: int,
        qk_norm: str,
        has_sinks: bool = False,
    ):
        self.head_dim, self.group, self.window, self.softcap = head_dim, group, window, softcap
        self.qk_norm, self.num_heads = qk_norm, 2 * group
        self.query_scale, self.eps = 2.0 * head_dim**-0.5, 1e-5
        self.sequences = np.repeat(np.arange(2), self.LENGTHS).astype(np.int32)
        self.positions = np.concatenate([np.arange(length) for length in self.LENGTHS]).astype(np.int32)
        self.block_tables = RNG.permutation(9)[:6].reshape(2, 3).astype(np.int32)
        self.qkv = normal(len(self.positions), (self.num_heads + 4) * head_dim)
        self.frequencies = np.float32(50.0) ** (-np.arange(rotary_dim // 2, dtype=np.float32) * 2 / rotary_dim)
        of_all = (self.num_heads * head_dim, 2 * head_dim)
        norm_dims = {"none": (0, 0), "head": (head_dim, head_dim), "each": of_all, "full": of_all}
        self.q_norm, self.k_norm = (1.0 + 0.3 * normal(dim) for dim in norm_dims[qk_norm])
        self.norm_kind = "layer" if qk_norm == "each" else "rms"
        self.sinks = 3.0 * normal(self.num_heads) if has_sinks else None

    def native(self, device: Device, kv_format: str) -> tuple[np.ndarray, np.ndarray]:
        """Normalised and rotated queries, keys and values, and the attention's output."""
        cache = KvLayer(device, kv_format, num_blocks=9, num_kv_heads=2, head_dim=self.head_dim)
        rows = (self.positions, self.sequences, self.block_tables)
        rotated = cache.rotate_and_store(
            self.qkv,
            *rows,
            angles=Operations.rotary_angles(device, self.positions, self.frequencies, 1.0),
            qk_norm=self.qk_norm,
            q_norm=None if self.qk_norm == "none" else self.q_norm,
            k_norm=None if self.qk_norm == "none" else self.k_norm,
            eps=self.eps,
            query_scale=self.query_scale,
            norm_kind=self.norm_kind,
        )
        options = {"window": self.window, "softcap": self.softcap, "sinks": self.sinks}
        return rotated, cache.attention(rotated, *rows, **options, format="f32")

    def rotated(self) -> np.ndarray:
        query, key, value = self._heads(self.qkv)
        query, key = self._rotate(self._normalise(query, self.q_norm)), self._rotate(self._normalise(key, self.k_norm))
        return np.concatenate([query * self.query_scale, key, value], axis=1).reshape(self.qkv.shape)

    def attention(self, rotated: np.ndarray, device: Device, kv_format: str) -> tuple[np.ndarray, np.ndarray]:
        """The output for given queries, keys and values, as a device stores and multiplies them, and its error at most.

        Tensor cores round queries to bf16, here too, and weights: to eight bits, an error of up to 2^-8 of each.
        """
        query, key, value = self._heads(rotated)
        is_fused = device.name != "cpu-portable"
        in_tiles = is_cuda(device.name) and kv_format != "f32" and self.head_dim % 8 == 0
        if in_tiles:
            query = rounded(query.astype(np.float32), "bf16").astype(np.float64)
        key, value = (rounded(stored.astype(np.float32), kv_format, is_fused=is_fused) for stored in (key, value))
        key, value = np.repeat(key, self.group, axis=1), np.repeat(value, self.group, axis=1)
        scores = np.einsum("qhd,khd->hqk", query, key)
        if self.softcap:
            scores = self.softcap * np.tanh(scores / self.softcap)
        distance = self.positions[:, None] - self.positions
        visible = (self.sequences[:, None] == self.sequences) & (distance >= 0)
        visible &= distance < (self.window or 1000)
        scores = np.where(visible, scores, -np.inf)
        sinks = np.full(self.num_heads, -np.inf) if self.sinks is None else self.sinks.astype(np.float64)
        highest = np.maximum(scores.max(-1, keepdims=True), sinks[:, None, None])
        weights = np.exp(scores - highest)
        weights /= weights.sum(-1, keepdims=True) + np.exp(sinks[:, None, None] - highest)
        exact, magnitude = (np.einsum("hqk,khd->qhd", weights, of) for of in (value, np.abs(value)))
        error = 5e-6 * max(1.0, self.head_dim / 128) + (2.0**-8 * magnitude if in_tiles else 0.0 * magnitude)
        return exact.reshape(len(query), -1), error.reshape(len(query), -1)

    def _heads(self, qkv: np.ndarray) -> list[np.ndarray]:
        heads = qkv.reshape(len(qkv), -1, self.head_dim).astype(np.float64)
        return np.split(heads, [self.num_heads, self.num_heads + 2], axis=1)

    def _normalise(self, heads: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if self.qk_norm == "none":
            return heads
        if self.qk_norm == "each":
            return layer_norm(heads, weight.reshape(-1, self.head_dim), self.eps)
        flat = heads.reshape(len(heads), -1) if self.qk_norm == "full" else heads
        return rms_norm(flat, weight, self.eps).reshape(heads.shape)

    def _rotate(self, heads: np.ndarray) -> np.ndarray:
        angles = (self.positions.astype(np.float32)[:, None, None] * self.frequencies).astype(np.float64)
        half = len(self.frequencies)
        low, high, rest = np.split(heads, [half, 2 * half], axis=-1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin, rest], axis=-1)


@in_every_kv_format
@pytest.mark.parametrize("head_dim", [16, 32, 64, 80, 128, 20])
@pytest.mark.parametrize("group", [1, 2, 4, 8, 3])
@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (5, 0.0), (40, 2.0), (1000, 2.0)])
def test_rotary_and_attention(device, kv_format, head_dim, group, window, softcap):
    case = AttentionCase(
        head_dim=head_dim, group=group, window=window, softcap=softcap, rotary_dim=head_dim, qk_norm="none"
    )
    rotated, result = case.native(device, kv_format)
    np.testing.assert_allclose(rotated, case.rotated(), rtol=0, atol=5e-6)
    exact, error = case.attention(rotated, device, kv_format)
    assert (np.abs(result - exact) <= error).all()


@in_every_kv_format
@pytest.mark.parametrize("group", [1, 8, 3])
def test_the_widest_heads_attend(device, kv_format, group):
    case = AttentionCase(head_dim=512, group=group, window=40, softcap=0.0, rotary_dim=128, qk_norm="head")
    rotated, result = case.native(device, kv_format)
    np.testing.assert_allclose(rotated, case.rotated(), rtol=0, atol=2e-5)
    exact, error = case.attention(rotated, device, kv_format)
    assert (np.abs(result - exact) <= error).all()


@in_every_kv_format
@pytest.mark.parametrize(("head_dim", "group"), [(64, 8), (20, 3)])
@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (5, 2.0), (40, 0.0)])
def test_sinks_take_their_share_of_every_softmax(device, kv_format, head_dim, group, window, softcap):
    shape = {"head_dim": head_dim, "group": group, "window": window, "softcap": softcap}
    case = AttentionCase(**shape, rotary_dim=head_dim, qk_norm="none", has_sinks=True)
    rotated, result = case.native(device, kv_format)
    exact, error = case.attention(rotated, device, kv_format)
    assert (np.abs(result - exact) <= error).all()
    case.sinks = None
    assert (np.abs(result - case.attention(rotated, device, kv_format)[0]) > error).mean() > 0.3


@in_every_kv_format
@pytest.mark.parametrize("num_rows", [5, 40], ids=["few rows", "many rows"])
@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (40, 2.0)])
def test_a_row_with_an_end_attends_as_one_at_that_position(device, kv_format, num_rows, window, softcap):
    head_dim, num_heads, lengths = 64, 8, (600, 300)
    tables = RNG.permutation(40)[:40].reshape(2, 20).astype(np.int32)
    cache = KvLayer(device, kv_format, num_blocks=40, num_kv_heads=2, head_dim=head_dim)
    positions = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    sequences = np.repeat(np.arange(2), lengths).astype(np.int32)
    stored = cache.rotate_and_store(
        normal(sum(lengths), (num_heads + 4) * head_dim),
        *(positions, sequences, tables),
        angles=Operations.rotary_angles(device, positions, np.float32(50.0) ** -np.linspace(0, 1, 32), 1.0),
        qk_norm="none",
        q_norm=None,
        k_norm=None,
        eps=0.0,
        query_scale=0.3,
    )
    rows = np.concatenate([np.arange(end - num_rows, end) for end in np.cumsum(lengths)])  # the last of each sequence
    ends = (np.array(lengths, np.int32) - 1)[sequences[rows]]
    options = {"window": window, "softcap": softcap, "format": "f32", "sinks": normal(num_heads)}
    found = cache.attention(stored[rows], positions[rows], sequences[rows], tables, ends=ends, **options)
    for index, row in enumerate(rows):
        alone = slice(row, row + 1)
        wanted = cache.attention(stored[alone], ends[index : index + 1], sequences[alone], tables, **options)
        assert np.array_equal(found[index], wanted[0]), index
    without = cache.attention(stored[rows], positions[rows], sequences[rows], tables, **options)
    assert not np.array_equal(found[0], without[0])


@pytest.mark.parametrize("qk_norm", ["head", "each", "full"])
@pytest.mark.parametrize("rotary_dim", [0, 12, 48])
def test_norms_of_heads_and_partial_rotation(device, qk_norm, rotary_dim):
    case = AttentionCase(head_dim=48, group=2, window=0, softcap=0.0, rotary_dim=rotary_dim, qk_norm=qk_norm)
    np.testing.assert_allclose(case.native(device, "f32")[0], case.rotated(), rtol=0, atol=2e-5)


@in_every_kv_format
def test_a_lone_position_gets_its_stored_value(device, kv_format):
    """Of a head of zeros too; and what is not finite stays visible. Tensor cores have scales rounded to eight bits."""
    values = normal(40, 32) * np.float32(10.0) ** RNG.integers(-6, 6, (40, 1)).astype(np.float32)
    values[:20] *= np.ldexp(np.float32(1), -RNG.integers(0, 18, (20, 32)))  # subnormal in e4m3, some of them
    values[30], values[31], values[32, 7] = 0.0, 1e-35, np.inf
    rows = (np.zeros(40, np.int32), np.arange(40, dtype=np.int32), RNG.permutation(40).reshape(40, 1).astype(np.int32))
    cache = KvLayer(device, kv_format, num_blocks=40, num_kv_heads=1, head_dim=32)
    stored = cache.rotate_and_store(
        np.concatenate([normal(40, 64), values], axis=1),
        *rows,
        angles=np.zeros((40, 2, 0), np.float32),
        qk_norm="none",
        q_norm=None,
        k_norm=None,
        eps=0.0,
        query_scale=1.0,
    )
    result = cache.attention(stored, *rows, window=0, softcap=0.0, format="f32")
    finite = np.isin(np.arange(40), [30, 31, 32], invert=True)
    expected = rounded(values[finite], kv_format, is_fused=device.name != "cpu-portable")
    has_scales = kv_format in {"int8", "fp8"}
    error = 2**-8 if has_scales and is_cuda(device.name) else 0
    np.testing.assert_allclose(result[finite], expected, rtol=error, atol=0)
    assert np.array_equal(result[30:32], np.zeros((2, 32)) if has_scales else rounded(values[30:32], kv_format))
    assert not np.isfinite(result[32, 7])


@on_cpus
def test_a_cpu_keeps_nothing_in_fp8(device_name):
    with pytest.raises(ValueError, match='kv: a CPU holds keys and values as "bf16", "f32" or "int8" only'):
        KvLayer(make_device(device_name, threads=1), "fp8", num_blocks=1, num_kv_heads=1, head_dim=16)


@in_every_kv_format
def test_stored_positions_are_all_that_attention_reads(device, kv_format):
    """The case's other blocks, and the slots after its last positions, are NaN."""
    case = AttentionCase(head_dim=32, group=2, window=0, softcap=0.0, rotary_dim=32, qk_norm="none")
    assert case.LENGTHS[0] % BLOCK_SIZE
    assert np.isfinite(case.native(device, kv_format)[1]).all()
    cache = KvLayer(device, kv_format, num_blocks=9, num_kv_heads=2, head_dim=32)
    nothing_stored = cache.attention(
        case.qkv, case.positions, case.sequences, case.block_tables, window=0, softcap=0.0, format="f32"
    )
    assert np.isnan(nothing_stored).all()


@pytest.mark.parametrize("flush", [False, True])
def test_the_callers_floating_point_state_changes_nothing(device_name, flush):
    """A library that flushes subnormals to zero in the calling thread must not decide our bits."""
    device = make_device(device_name, threads=1)
    values = np.full((1, 40), 1e-40, dtype=np.float32)
    torch.set_flush_denormal(flush)
    try:
        total, _ = Operations.residual_norm(device, values, values, None, None, eps=0.0, format="f32")
    finally:
        torch.set_flush_denormal(False)
    assert np.array_equal(total.view(np.uint32), (values.view(np.uint32) * 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda device: PackedWeight(device, "int3", 4, 4), 'format is "int3"'),
        (lambda device: PackedWeight(device, "f32", 4, 4).store(2, normal(3, 4)), "reach beyond"),
        (lambda device: PackedWeight(device, "f32", 4, 4).multiply(normal(2, 5)), "input has the wrong shape"),
        (lambda device: PackedWeight(device, "f32", 4, 4).embed(np.array([4]), 1.0), "token_ids must be in 0 ... 3"),
        (lambda device: Operations.activate(device, normal(1, 2), "relu", format="f32"), "activation is"),
    ],
)
def test_wrong_arguments_are_refused(device, call, message):
    with pytest.raises(ValueError, match=message):
        call(device)
