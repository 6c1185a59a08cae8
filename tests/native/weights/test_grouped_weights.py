"""Matrices that were given as integers in groups: they stand for the very values that were given, in products too."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Decoder, DecoderConfig, Device, isas
from services.engine.decoder.native.testing import PackedWeight
from tests.native.harness.devices import EMULATION, make_device, needs_emulation, on_cpus
from tests.native.harness.grouped import (
    KIND_OF_TYPE,
    KINDS,
    GroupedKind,
    arrays,
    new_weight,
    packed,
    random_blocks,
    random_rows,
    values_of,
)
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.rounding import bits, rounded

in_every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
Q4_1, Q8_0, Q4_K, Q6_K = (KIND_OF_TYPE[name] for name in ("Q4_1", "Q8_0", "Q4_K", "Q6_K"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def as_read(values: np.ndarray, kind: GroupedKind, device: Device) -> np.ndarray:
    """A product's input in int8, each group with a scale."""
    groups = values.reshape(len(values), -1, kind.group)
    return rounded(groups, "int8", is_fused=device.name != "cpu-portable").reshape(values.shape)


@on_cpus
@in_every_kind
def test_grouped_weights_stand_for_the_very_values_given(device_name, kind):
    device, rows = make_device(device_name, threads=2), random_rows(kind, 77, 512)
    ids = np.array([76, 0, 3, 3, 50], dtype=np.int32)
    assert np.array_equal(bits(packed(device, kind, rows).embed(ids, 1.0)), bits(rows.values()[ids]))


@on_cpus
@in_every_kind
@pytest.mark.parametrize(
    ("rows", "outputs", "blocks", "has_bias"), [(1, 1, 1, False), (17, 100, 5, True), (40, 33, 9, False)]
)
def test_product(rng, device_name, kind, rows, outputs, blocks, has_bias):
    device, inputs = make_device(device_name, threads=2), blocks * kind.block
    matrix = random_rows(kind, outputs, inputs)
    values = np.float32(10.0 ** rng.integers(-3, 3)) * normal(rng, rows, inputs)
    bias = normal(rng, outputs) if has_bias else None
    read, weights = as_read(values, kind, device).astype(np.float64), matrix.values().astype(np.float64)
    result = packed(device, kind, matrix).multiply(values, bias)
    most = np.abs(read) @ np.abs(weights.T) * 1e-6
    assert (np.abs(result - (read @ weights.T + (bias if has_bias else 0.0))) <= most + 1e-6).all()


@on_cpus
@in_every_kind
def test_parts_of_a_weight_may_begin_anywhere(rng, device_name, kind):
    device, rows, values = make_device(device_name, threads=2), random_rows(kind, 150, 512), normal(rng, 5, 512)
    parts = new_weight(device, kind, 150, 512)
    for first, end in ((37, 101), (0, 37), (101, 150)):
        parts.store_groups(first, **arrays(rows, first, end))
    assert np.array_equal(bits(parts.multiply(values)), bits(packed(device, kind, rows).multiply(values)))


@on_cpus
@in_every_kind
def test_a_value_that_is_not_finite_spoils_its_own_outputs_only(rng, device_name, kind):
    device, rows, values = make_device(device_name, threads=1), random_rows(kind, 40, 512), normal(rng, 9, 512)
    clean = packed(device, kind, rows).multiply(values)
    rows.scales[7, 0], values[4, 300] = np.inf, np.nan
    result = packed(device, kind, rows).multiply(values)
    spoilt = (np.arange(9) == 4)[:, None] | (np.arange(40) == 7)
    assert np.array_equal(~np.isfinite(result), spoilt)
    assert np.array_equal(bits(result[~spoilt]), bits(clean[~spoilt]))


@on_cpus
def test_a_row_of_zeros_gives_zeros(device_name):
    rows = random_rows(Q4_1, 20, 64)
    assert (packed(make_device(device_name, threads=1), Q4_1, rows).multiply(np.zeros((2, 64), np.float32)) == 0).all()


@on_cpus
@pytest.mark.parametrize("value", [0.0, 2.0**-24, -(2.0**-15), 2.0**-14, 1.5, -65504.0])
def test_every_float16_is_a_scale(device_name, value):
    rows = random_rows(Q8_0, 20, 64)
    rows.scales[:] = value
    stored = packed(make_device(device_name, threads=1), Q8_0, rows).embed(np.arange(20, dtype=np.int32), 1.0)
    assert np.array_equal(stored, rows.numbers * np.float32(value))


def grouped_decoder(device: Device, blocks: dict[str, str]) -> list[PagedDecoder]:
    """A decoder with such weights, and one with the same values in float32."""
    config = replace(PLAIN, hidden_size=256, intermediate_size=512, num_heads=8, head_dim=32, ropes=PLAIN.ropes)
    tokens = random_tokens(config, 2, 40)
    both = (
        PagedDecoder(config, device, "f32", tokens=tokens, blocks=blocks),
        PagedDecoder(config, device, "f32", tokens=tokens),
    )
    for name, values in random_weights(config).items():
        if name in blocks:
            rows = random_blocks(blocks[name], *values.shape, scale=2.0**-12)
            both[0].decoder.load_blocks(name, 0, blocks[name], rows)
            both[1].decoder.load(name, values_of(blocks[name], rows))
    return both


@on_cpus
def test_a_model_may_hold_each_weight_in_another_kind(device_name):
    """Parts of a fused matrix too."""
    blocks = {"embedding": "Q6_K", "layers.0.q": "Q4_K", "layers.0.k": "Q4_K", "layers.0.v": "Q6_K"}
    blocks |= {"layers.0.up": "Q8_0", "layers.1.o": "Q4_1", "layers.1.down": "Q4_K", "lm_head": "Q8_0"}
    grouped, plain = grouped_decoder(make_device(device_name, threads=2), blocks)
    rows = [(sequence, position) for sequence in range(2) for position in range(40)]
    exact, result = plain.forward(rows), grouped.forward(rows)
    assert np.corrcoef(exact.ravel(), result.ravel())[0, 1] > 0.999
    assert grouped.decoder.weight_bytes < 0.8 * plain.decoder.weight_bytes


@on_cpus
def test_rows_of_a_mixed_model_are_their_own(device_name):
    blocks = {"layers.0.q": "Q4_K", "layers.0.v": "Q6_K", "layers.1.gate": "Q8_0", "lm_head": "Q6_K"}
    rows = [(sequence, position) for sequence in range(2) for position in range(40)]
    whole = grouped_decoder(make_device(device_name, threads=2), blocks)[0].forward(rows)
    alone = grouped_decoder(make_device(device_name, threads=1), blocks)[0]
    assert np.array_equal(bits(whole), bits(np.concatenate([alone.forward([row]) for row in rows])))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (Q4_1, {"offsets": None}, "offsets must be there with a weight of this kind"),
        (Q8_0, {"offsets": np.zeros((4, 16), np.float16)}, "offsets must not be there"),
        (Q6_K, {"steps": None}, "steps must be there"),
        (Q4_K, {"offset_steps": None}, "offset_steps must be there"),
        (Q8_0, {"scales": np.zeros((4, 15), np.float16)}, "scales has the wrong shape; it must have 4 rows of 16"),
        (Q8_0, {"scales": np.zeros((4, 16), np.float32)}, "scales has dtype float32; it must be float16"),
        (Q8_0, {"numbers": np.zeros((4, 512), np.uint8)}, "numbers has dtype uint8; it must be int8"),
        (
            Q8_0,
            {"numbers": np.zeros((4, 480), np.int8), "scales": np.zeros((4, 15), np.float16)},
            "numbers has the w",
        ),
        (Q4_K, {"numbers": np.full((4, 512), 16, np.int8)}, r"numbers must be in 0 \.\.\. 15"),
        (Q8_0, {"numbers": np.zeros(512, np.int8)}, "numbers has 1 dimensions; it must have 2"),
    ],
)
def test_arrays_that_a_kind_does_not_have_are_refused(kind, changes, message):
    weight = new_weight(Device.cpu(isas()[0], threads=1), kind, 4, 512)
    with pytest.raises(ValueError, match=message):
        weight.store_groups(0, **(arrays(random_rows(kind, 4, 512)) | changes))


@on_cpus
@pytest.mark.parametrize(
    ("weight_format", "groups", "message"),
    [
        ("int8", (48, 48, False), "in groups of certain sizes"),
        ("bf16", (32, 32, False), "in groups of certain sizes"),
        ("int8", (32, 256, False), "a product over 96 inputs does not divide into blocks of 256"),
    ],
)
def test_other_groups_are_refused(device_name, weight_format, groups, message):
    with pytest.raises(ValueError, match=message):
        PackedWeight(make_device(device_name, threads=1), weight_format, 4, 96, groups)


@needs_emulation
def test_a_gpu_holds_no_groups():
    with pytest.raises(ValueError, match="a GPU holds no weights in groups"):
        new_weight(make_device(EMULATION, threads=1), Q8_0, 4, 64)


@on_cpus
def test_values_and_groups_are_not_mistaken_for_each_other(device_name):
    device = make_device(device_name, threads=1)
    with pytest.raises(ValueError, match="a grouped weight comes as numbers and scales, not as values"):
        new_weight(device, Q8_0, 4, 64).store(0, np.zeros((4, 64), np.float32))
    with pytest.raises(ValueError, match="a weight without groups comes as values"):
        PackedWeight(device, "int8", 4, 64).store_groups(0, **arrays(random_rows(Q8_0, 4, 64)))


@pytest.mark.parametrize(
    ("weights", "name", "message"),
    [
        ("f32", "layers.9.q", 'no weight named "layers.9.q"'),
        ("f32", "final_norm", '"final_norm" is no matrix'),
        ("bf16", "lm_head", '"lm_head" reads its inputs in another format than the others'),
    ],
)
def test_kinds_that_a_decoder_cannot_have_are_refused(weights, name, message):
    config = replace(PLAIN, hidden_size=64)
    with pytest.raises(ValueError, match=message):
        Decoder(Device.cpu(isas()[0], 1), DecoderConfig(config), weights=weights, kv="f32", blocks={name: "Q8_0"})
