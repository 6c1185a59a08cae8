"""Blocks of a GGUF file stand for the very values that llama.cpp's own package computes, however they are held."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Decoder, DecoderConfig, Device, block_types, isas
from services.engine.decoder.native.testing import PackedWeight
from tests.native.harness.devices import EMULATION, make_device, needs_emulation, on_cpus
from tests.native.harness.grouped import KIND_OF_TYPE, new_weight, random_blocks, values_of
from tests.native.harness.random_models import PLAIN
from tests.native.harness.rounding import bits

OUTPUTS, INPUTS = 70, 1024
IDS = np.array([69, 0, 3, 3, 50], np.int32)


def is_held(weight: PackedWeight, name: str, blocks: np.ndarray) -> None:
    expected, found = values_of(name, blocks)[IDS], weight.embed(IDS, 1.0)
    finite = np.isfinite(expected)
    assert finite.mean() > 0.9
    assert np.array_equal(np.isfinite(found), finite)
    assert np.array_equal(bits(found[finite]), bits(expected[finite]))


def test_all_types_are_known():
    assert [*KIND_OF_TYPE] == block_types()


@on_cpus
@pytest.mark.parametrize("name", KIND_OF_TYPE)
def test_blocks_are_held_as_they_are(device_name, name):
    """Every byte is a block's: scales of all sizes, infinite ones and NaN too."""
    blocks = random_blocks(name, OUTPUTS, INPUTS)
    weight = new_weight(make_device(device_name, threads=2), KIND_OF_TYPE[name], OUTPUTS, INPUTS)
    weight.store_blocks(0, name, blocks[:33])
    weight.store_blocks(33, name, blocks[33:])
    is_held(weight, name, blocks)


@on_cpus
@pytest.mark.parametrize("name", KIND_OF_TYPE)
def test_blocks_become_values(device_name, name):
    blocks = random_blocks(name, OUTPUTS, INPUTS)
    weight = PackedWeight(make_device(device_name, threads=2), "f32", OUTPUTS, INPUTS)
    weight.store_blocks(0, name, blocks)
    is_held(weight, name, blocks)


@needs_emulation
@pytest.mark.parametrize("name", KIND_OF_TYPE)
def test_blocks_become_values_on_a_gpu(name):
    blocks = random_blocks(name, OUTPUTS, INPUTS)
    weight = PackedWeight(make_device(EMULATION, threads=1), "f32", OUTPUTS, INPUTS)
    weight.store_blocks(0, name, blocks)
    is_held(weight, name, blocks)


@pytest.mark.parametrize("weights", ["bf16", "int8", "int4"])
def test_blocks_are_rounded_as_their_values_are(weights):
    blocks, device = random_blocks("Q4_K", OUTPUTS, INPUTS, scale=0.01), Device.cpu(isas()[0], threads=2)
    stored, given = (PackedWeight(device, weights, OUTPUTS, INPUTS) for _ in range(2))
    stored.store_blocks(0, "Q4_K", blocks)
    given.store(0, values_of("Q4_K", blocks))
    inputs = np.random.default_rng(1).standard_normal((3, INPUTS)).astype(np.float32)
    assert np.array_equal(bits(stored.multiply(inputs)), bits(given.multiply(inputs)))


BLOCKS = random_blocks("Q4_K", 4, 512)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("Q9_K", BLOCKS, 'no type of blocks named "Q9_K"'),
        ("Q4_K", BLOCKS[0], "rows has dtype uint8 and 1 dimensions; it must be uint8, and have 2"),
        ("Q4_K", BLOCKS.view(np.int8), "rows has dtype int8 and 2 dimensions"),
        ("Q4_K", BLOCKS.view(np.uint16), "rows has dtype uint16 and 2 dimensions"),
        ("Q4_K", BLOCKS[:, :-1], '"lm_head" has rows of 287 bytes; in Q4_K they must have 288'),
        ("Q4_K", BLOCKS[:, :0], '"lm_head" has rows of 0 bytes; in Q4_K they must have 288'),
        ("Q5_K", BLOCKS, '"lm_head" has rows of 288 bytes; in Q5_K they must have 352'),
        ("Q6_K", np.zeros((4, 420), np.uint8), "blocks of Q6_K are of another kind than this grouped weight"),
    ],
)
def test_blocks_that_a_weight_does_not_have_are_refused(name, rows, message):
    decoder = new_decoder(512, {"lm_head": "Q4_K"})
    with pytest.raises(ValueError, match=message):
        decoder.load_blocks("lm_head", 0, name, rows)


def new_decoder(hidden_size: int, blocks: dict[str, str]) -> Decoder:
    config = DecoderConfig(replace(PLAIN, hidden_size=hidden_size))
    return Decoder(Device.cpu(isas()[0], threads=1), config, weights="f32", kv="f32", blocks=blocks)


@pytest.mark.parametrize(
    ("name", "first_row", "message"),
    [
        ("lm_head", 5, "first_row is 5; it must be 0, or 0, the first that is missing"),
        ("lm_head", -1, "first_row is -1"),
        ("final_norm", 0, '"final_norm" is no matrix'),
        ("layers.9.q", 0, 'no weight named "layers.9.q"'),
        ("embedding", 0, "rows of 80 values are no whole blocks of Q4_K, which have 256"),
    ],
)
def test_places_that_a_decoder_does_not_have_are_refused(name, first_row, message):
    decoder = new_decoder(80 if name == "embedding" else 512, {})
    with pytest.raises(ValueError, match=message):
        decoder.load_blocks(name, first_row, "Q4_K", BLOCKS)


def test_more_rows_than_a_weight_has_are_refused():
    with pytest.raises(ValueError, match="rows from 0 on have shape"):
        new_decoder(512, {}).load_blocks("layers.0.k", 0, "Q4_K", random_blocks("Q4_K", 4096, 512))
