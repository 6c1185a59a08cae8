"""The native decoder: its results, the facts that it reports, and the arguments that it refuses."""

import re
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from services.engine.checkpoint.model_config import ModelConfig, QkNorm, attention_layers
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.decoder.native import BLOCK_SIZE, BUILD_ID, Batch, Decoder, DecoderConfig, Device, isas
from services.engine.decoder.native.testing import make_logits, poison
from tests.native.harness.devices import in_weight_formats, make_device
from tests.native.harness.random_models import EXPERT_MODELS, MODELS, PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.reference_decoder import ReferenceDecoder


def norm_error(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(values - truth) / np.linalg.norm(truth))


TOLERANCES = {"f32": 1e-5, "bf16": 2e-2, "int8": 8e-2, "int4": 5e-1, "fp8": 2e-1}


@in_weight_formats(*TOLERANCES)
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_logits_are_those_of_the_reference(device_name, config, weight_format):
    tokens = random_tokens(config, 1, 100)
    expected = ReferenceDecoder(config, random_weights(config).items()).logits(tokens[0].tolist()).numpy()
    decoder = PagedDecoder(config, make_device(device_name, threads=2), weight_format, tokens=tokens)
    assert norm_error(decoder.forward([(0, position) for position in range(100)]), expected) < TOLERANCES[weight_format]


@pytest.mark.parametrize("asked", [[4], [0, 4, 2], [3, 3], []])
def test_logits_come_in_the_order_asked(device_name, asked):
    decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), "f32", tokens=random_tokens(PLAIN, 1, 5))
    every = decoder.forward([(0, position) for position in range(5)])
    decoder.batch.logit_rows[: len(asked)] = asked
    decoder.batch.num_logits = len(asked)
    logits = decoder.decoder.forward(decoder.batch).logits
    assert (logits.num_rows, logits.vocab_size) == (len(asked), PLAIN.vocab_size)
    assert np.array_equal(logits.numpy(), every[asked])


def test_a_copy_of_the_logits_outlives_the_next_pass(device_name):
    decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), "f32", tokens=random_tokens(PLAIN, 1, 5))
    first = decoder.forward([(0, 0)])
    before = first.copy()
    assert not np.array_equal(decoder.forward([(0, 1)]), first)
    assert np.array_equal(first, before)


def test_blocks_outside_every_window_are_not_read(device_name):
    """Where all layers are windowed, a table may hold anything for blocks that no layer reads any more."""
    config = replace(PLAIN, layers=attention_layers((20, 33)))
    tokens = random_tokens(config, 1, 120)
    decoder = PagedDecoder(config, make_device(device_name, threads=1), "f32", tokens=tokens)
    decoder.forward([(0, position) for position in range(110)])
    expected = decoder.forward([(0, 110)])
    decoder.batch.block_tables[0, 0] = -1
    poison(decoder.decoder, [int(decoder.batch.block_tables[0, 1])])
    assert np.array_equal(decoder.forward([(0, 110)]), expected)


@in_weight_formats("f32", "bf16", "int8")
def test_a_copied_block_reads_as_the_one_it_was_copied_from(device_name, weight_format):
    tokens = np.repeat(random_tokens(PLAIN, 1, 2 * BLOCK_SIZE), 2, axis=0)
    decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), weight_format, tokens=tokens)
    decoder.forward([(0, position) for position in range(BLOCK_SIZE + 9)])
    for mine, copy in decoder.batch.block_tables.T:
        decoder.decoder.copy_block(int(mine), int(copy))
    rest = range(BLOCK_SIZE + 9, 2 * BLOCK_SIZE)
    decoded = decoder.forward([(1, position) for position in rest])
    assert np.array_equal(decoded, decoder.forward([(0, position) for position in rest]))
    assert not np.isnan(decoded).any()


def test_copies_need_blocks_that_are_there():
    decoder = new_decoder()
    for source, target in ((4, 0), (0, -1)):
        with pytest.raises(ValueError, match=r"block is -?\d; it must be in 0 \.\.\. 3"):
            decoder.copy_block(source, target)


def new_decoder(**changes: object) -> Decoder:
    device = Device.cpu(isas()[0], threads=1)
    return Decoder(device, DecoderConfig(replace(PLAIN, **changes)), weights="bf16", kv="f32", num_blocks=4)


@pytest.mark.parametrize("config", (MODELS | EXPERT_MODELS).values(), ids=MODELS | EXPERT_MODELS)
def test_missing_weights_are_those_of_the_configuration(config):
    device = Device.cpu(isas()[0], threads=1)
    decoder = Decoder(device, DecoderConfig(config), weights="bf16", kv="bf16", num_blocks=1)
    names = decoder.missing_weights()
    assert sorted(names) == sorted(weight_shapes(config))
    decoder.load(names[0], random_weights(config)[names[0]])
    assert decoder.missing_weights() == names[1:]


@pytest.mark.parametrize("config", (MODELS | EXPERT_MODELS).values(), ids=MODELS | EXPERT_MODELS)
def test_weights_of_another_shape_are_refused_with_both_shapes(config):
    device = Device.cpu(isas()[0], threads=1)
    decoder = Decoder(device, DecoderConfig(config), weights="bf16", kv="bf16", num_blocks=1)
    for name, shape in weight_shapes(config).items():
        other = np.zeros((1, *shape), np.float32)
        with pytest.raises(ValueError, match=re.escape(f'"{name}" has shape {[*other.shape]}; it must be {[*shape]}')):
            decoder.load(name, other)


def test_forward_names_a_missing_weight():
    decoder = new_decoder()
    for name, values in random_weights(PLAIN).items():
        if name != "layers.1.v":
            decoder.load(name, values)
    with pytest.raises(RuntimeError, match=r'"layers\.1\.v" is not loaded'):
        decoder.forward(Batch(max_rows=1, max_sequences=1, max_blocks=1))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("layers.0.qq", np.zeros((64, 70), np.float32), r'no weight named "layers\.0\.qq"'),
        ("layers.2.q", np.zeros((64, 70), np.float32), r'no weight named "layers\.2\.q"'),
        ("layers.0.q_norm", np.zeros(16, np.float32), "no weight named"),
        ("layers.0.k", np.zeros((70, 32), np.float32), r'"layers\.0\.k" has shape \[70, 32\]; it must be \[32, 70\]'),
        ("final_norm", np.zeros((70, 1), np.float32), r"has shape \[70, 1\]; it must be \[70\]"),
        ("lm_head", np.zeros((150, 70), np.float64), r'"lm_head" has dtype float64; it must be float32'),
    ],
)
def test_wrong_weights_are_refused(name, values, message):
    with pytest.raises(ValueError, match=message):
        new_decoder().load(name, values)


def test_weights_need_not_be_contiguous(device_name):
    tokens = random_tokens(PLAIN, 1, 3)
    rows = [(0, 0), (0, 1), (0, 2)]
    decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), "bf16", tokens=tokens)
    expected = decoder.forward(rows)
    for name, values in random_weights(PLAIN).items():
        decoder.decoder.load(name, np.asfortranarray(values))
    assert np.array_equal(decoder.forward(rows), expected)


def test_bfloat16_bits_and_float32_make_the_same_weights(device_name):
    rounded = {name: torch.from_numpy(values).bfloat16() for name, values in random_weights(PLAIN).items()}
    logits = []
    for convert in (lambda tensor: tensor.float().numpy(), lambda tensor: tensor.view(torch.uint16).numpy()):
        decoder = PagedDecoder(PLAIN, make_device(device_name, threads=1), "bf16", tokens=random_tokens(PLAIN, 1, 9))
        for name, tensor in rounded.items():
            decoder.decoder.load(name, convert(tensor))
        logits.append(decoder.forward([(0, position) for position in range(9)]))
    assert np.array_equal(*logits)


def test_a_decoder_knows_its_size():
    decoder = new_decoder(attention_bias=True)
    qkv, output, mlp, head = 128 * 70, 64 * 70, 3 * 100 * 70, 150 * 70
    matrices = 2 * (qkv + output + mlp) + head
    vectors = 2 * (128 + 2 * 70) + 70
    assert decoder.weight_bytes == 2 * matrices + 4 * vectors
    assert decoder.kv_bytes_per_token == 4 * 2 * 2 * 32
    assert decoder.num_blocks == 4


Change = Callable[[Batch], object]


def set_entry(field: str, index: int | tuple[int, int], value: int) -> Change:
    return lambda batch: getattr(batch, field).__setitem__(index, value)


def set_count(field: str, value: int) -> Change:
    return lambda batch: setattr(batch, field, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry("token_ids", 1, 150), r"token_ids\[1\] is 150; it must be in 0 \.\.\. 149"),
        (set_entry("token_ids", 0, -1), r"token_ids\[0\] is -1"),
        (set_entry("sequences", 2, 2), r"sequences\[2\] is 2; it must be in 0 \.\.\. 1"),
        (set_entry("positions", 2, 512), r"positions\[2\] is 512; it must be in 0 \.\.\. 95"),
        (set_entry("positions", 1, 33), r"positions\[1\] is 33; it must be in 32 \.\.\. 32"),
        (set_entry("positions", 1, 31), r"positions\[1\] is 31"),
        (set_entry("block_tables", (0, 0), 4), r"block_tables\[0, 0\] is 4; it must be in 0 \.\.\. 3"),
        (set_entry("block_tables", (0, 1), -1), r"block_tables\[0, 1\] is -1"),
        (set_entry("logit_rows", 0, 3), r"logit_rows\[0\] is 3; it must be in 0 \.\.\. 2"),
        (set_count("num_rows", 0), "num_rows is 0"),
        (set_count("num_sequences", 0), r"num_sequences is 0; it must be in 1 \.\.\. 2"),
    ],
)
def test_batches_that_reach_out_of_bounds_are_refused(change, message):
    decoder = new_decoder()
    for name, values in random_weights(PLAIN).items():
        decoder.load(name, values)
    batch = Batch(max_rows=4, max_sequences=2, max_blocks=3)
    batch.positions[:3] = 31, 32, 7
    batch.sequences[:3] = 0, 0, 1
    batch.block_tables[:] = [[0, 1, 99], [2, 99, 99]]
    batch.num_rows, batch.num_sequences, batch.num_logits = 3, 2, 1
    decoder.forward(batch)
    change(batch)
    with pytest.raises(ValueError, match=message):
        decoder.forward(batch)


def test_positions_end_at_the_context_length():
    decoder = new_decoder(max_position=40)
    for name, values in random_weights(PLAIN).items():
        decoder.load(name, values)
    batch = Batch(max_rows=1, max_sequences=1, max_blocks=4)
    batch.num_rows = batch.num_sequences = 1
    batch.positions[0] = 39
    decoder.forward(batch)
    batch.positions[0] = 40
    with pytest.raises(ValueError, match=r"positions\[0\] is 40; it must be in 0 \.\.\. 39"):
        decoder.forward(batch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, "num_heads is 3; it must be a multiple of num_kv_heads = 2"),
        ({"hidden_size": 0}, r"hidden_size is 0; it must be in 1 \.\.\. 16777216"),
        ({"layers": ()}, r"the number of layers is 0; it must be in 1 \.\.\. 65536"),
        ({"head_dim": 2**31 - 2}, r"head_dim is 2147483646; it must be in 1 \.\.\. 16777216"),
        ({"num_heads": 2**24}, r"\(num_heads \+ 2 \* num_kv_heads\) \* head_dim is 268435520"),
        ({"layers": attention_layers((0, -1))}, r"layers\[1\].window is -1; it must be in 0"),
        ({"layers": attention_layers((0, 0), (0, 1))}, r"layers\[1\].rope is 1; it must be in 0 \.\.\. 0"),
        ({"head_dim": 14}, "ropes has one of 8 frequencies; it must have at most half of head_dim = 14"),
        ({"head_dim": 1024}, r"head_dim is 1024; device cpu-\w+ handles at most 512"),
        ({"norm_eps": float("nan")}, "norm_eps is nan"),
        ({"logit_softcap": -1.0}, "logit_softcap is -1"),
    ],
)
def test_impossible_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        new_decoder(**changes)


def test_unknown_words_are_refused():
    device, config = Device.cpu(isas()[0], threads=1), DecoderConfig(PLAIN)
    with pytest.raises(ValueError, match='weights is "int3"; it must be one of "bf16", "f32", "int8", "int4"'):
        Decoder(device, config, weights="int3", kv="f32", num_blocks=1)
    with pytest.raises(ValueError, match='kv is "f16"; it must be one of "bf16", "f32", "int8"'):
        Decoder(device, config, weights="f32", kv="f16", num_blocks=1)
    with pytest.raises(ValueError, match='activation is "relu"; it must be one of "silu", "gelu"'):
        DecoderConfig(replace(PLAIN, activation="relu"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='qk_norm is "layer"'):
        DecoderConfig(replace(PLAIN, qk_norm="layer"))  # type: ignore[arg-type]
    assert QkNorm.FULL == "full"  # as which the configuration is handed over


@pytest.mark.parametrize("field", [field.name for field in fields(ModelConfig) if field.name != "architecture"])
def test_every_field_of_a_configuration_is_read(field):
    with pytest.raises(TypeError, match=f"{field} is <object .*, which the decoder cannot have"):
        DecoderConfig(replace(PLAIN, **{field: object()}))


def test_poison_needs_blocks_that_are_there():
    with pytest.raises(ValueError, match=r"block is 4; it must be in 0 \.\.\. 3"):
        poison(new_decoder(), [0, 4])


def test_devices():
    assert isas()[-1] == "portable"
    device = Device.cpu("portable", threads=2)
    assert (device.name, device.threads) == ("cpu-portable", 2)
    with pytest.raises(ValueError, match=r'isa "sse9" cannot run on this machine; it can run .*"portable"'):
        Device.cpu("sse9", threads=1)
    with pytest.raises(ValueError, match=r"threads is 0; it must be in 1 \.\.\. 4096"):
        Device.cpu("portable", threads=0)


@pytest.mark.parametrize("size", ["max_rows", "max_logits", "max_sequences", "max_blocks"])
def test_room_is_made_for_no_impossible_sizes(size):
    decoder = new_decoder()
    sizes = {"max_rows": 4, "max_logits": 4, "max_sequences": 1, "max_blocks": 1}
    with pytest.raises(ValueError, match=f"{size} is -1; it must be in"):
        decoder.reserve(**{**sizes, size: -1})


def test_logits_from_numpy_are_those_given(device_name):
    values = np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)
    logits = make_logits(make_device(device_name, threads=1), values)
    assert (logits.num_rows, logits.vocab_size) == (3, 7)
    assert np.array_equal(logits.numpy(), values)


def test_identity():
    assert BLOCK_SIZE == 32
    assert len(BUILD_ID) == 16
    assert set(BUILD_ID) <= set("0123456789abcdef")
