"""Short convolutions: which earlier positions a row reads, and where their inputs are kept."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from services.engine.checkpoint.model_config import Attention, ShortConvolution
from services.engine.decoder.native import BLOCK_SIZE, Decoder, DecoderConfig, Device, isas
from services.engine.decoder.native.testing import poison
from tests.native.harness.devices import DEVICES, in_every_weight_format, make_device
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.reference_decoder import ReferenceDecoder
from tests.native.harness.row_invariance import prefill, same_bits

TAPS = 3
CONVOLUTION = ShortConvolution(taps=TAPS)
ALONE = replace(PLAIN, layers=(CONVOLUTION,))
LONG = replace(PLAIN, layers=(ShortConvolution(taps=32),))
MIXED = replace(PLAIN, layers=(CONVOLUTION, Attention(), CONVOLUTION), conv_bias=True)
LENGTH = 80


def decoder_of(config, device_name: str, weight_format: str, tokens: np.ndarray, seed: int = 0) -> PagedDecoder:
    return PagedDecoder(config, make_device(device_name, threads=1), weight_format, tokens=tokens, seed=seed)


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("config", [ALONE, MIXED, LONG], ids=["alone", "mixed", "32 taps"])
def test_convolution_layers_compute_what_the_reference_does(device_name, config):
    tokens = random_tokens(config, 1, LENGTH)
    truth = ReferenceDecoder(config, random_weights(config).items()).logits(tokens[0].tolist())
    ours = torch.from_numpy(prefill(decoder_of(config, device_name, "f32", tokens), chunk=7))
    assert float((ours - truth).norm() / truth.norm()) < 1e-5


@in_every_weight_format
def test_a_row_depends_on_as_many_positions_as_there_are_taps(device_name, weight_format):
    """Those in another block too, and on no others."""
    tokens = random_tokens(ALONE, 1, LENGTH)
    expected = prefill(decoder_of(ALONE, device_name, weight_format, tokens), chunk=LENGTH)
    for changed in (0, 20, BLOCK_SIZE - 2, BLOCK_SIZE - 1, BLOCK_SIZE):
        others = tokens.copy()
        others[0, changed] = (others[0, changed] + 1) % 150
        logits = prefill(decoder_of(ALONE, device_name, weight_format, others), chunk=LENGTH)
        differing = [position for position in range(LENGTH) if not same_bits(logits[position], expected[position])]
        assert differing == [*range(changed, changed + TAPS)]


@in_every_weight_format
def test_rejected_predictions_leave_no_trace(device_name, weight_format):
    tokens = random_tokens(MIXED, 1, 48)
    expected = prefill(decoder_of(MIXED, device_name, weight_format, tokens), chunk=48)
    paged = decoder_of(MIXED, device_name, weight_format, tokens.copy())
    for position in range(40):
        paged.tokens[0, position + 1 : position + 8] = (tokens[0, position + 1 : position + 8] + 1) % 150
        verified = paged.forward([(0, ahead) for ahead in range(position, position + 8)])
        assert same_bits(verified[0], expected[position])
        assert not same_bits(verified[1], expected[position + 1])
        paged.tokens[0, position + 1] = tokens[0, position + 1]


@in_every_weight_format
@pytest.mark.parametrize("begun", [BLOCK_SIZE, BLOCK_SIZE + 1, BLOCK_SIZE + 9])
def test_copied_pages_give_the_bits_of_computed_ones(device_name, weight_format, begun):
    """To another decoder by the host, or to other blocks of the same; at a block's begin a row reads the one before."""
    tokens = random_tokens(MIXED, 1, LENGTH)
    first, other = (decoder_of(MIXED, device_name, weight_format, tokens, seed) for seed in (0, 3))
    first.forward([(0, position) for position in range(begun)])
    mine = first.batch.block_tables[0].copy()
    for source, target in zip(mine, other.batch.block_tables[0], strict=True):
        page = np.zeros(first.decoder.block_bytes, np.uint8)
        first.decoder.read_block(int(source), page)
        other.decoder.write_block(int(target), page)
    rest = [(0, position) for position in range(begun, LENGTH)]
    expected = other.forward(rest)
    assert not np.isnan(expected).any()
    free = [block for block in range(first.decoder.num_blocks) if block not in mine]
    for index, block in enumerate(mine):
        first.decoder.copy_block(int(block), free[index])
    first.batch.block_tables[0] = free[: len(mine)]
    poison(first.decoder, mine.tolist())
    assert same_bits(first.forward(rest), expected)


@pytest.mark.parametrize("kv", ["f32", "bf16", "int8"])
def test_kv_bytes_per_token_count_only_what_layers_keep(kv):
    decoder = Decoder(Device.cpu(isas()[0], 1), DecoderConfig(MIXED), weights="bf16", kv=kv, num_blocks=1)
    head, value = {"f32": (64, 4), "bf16": (32, 2), "int8": (20, 2)}[kv]
    assert decoder.kv_bytes_per_token == 2 * 2 * head + 2 * 70 * value


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"layers": (Attention(), ShortConvolution(taps=1))}, "layers[1].taps is 1; it must be in 2 ... 32"),
        ({"layers": (ShortConvolution(taps=33),)}, "layers[0].taps is 33; it must be in 2 ... 32"),
        ({"layers": (ShortConvolution(taps=-3),)}, "layers[0].taps is -3; it must be in 2 ... 32"),
        ({"hidden_size": 1 << 23}, "hidden_size is 8388608; where layers convolve, three of it must be at most"),
    ],
)
def test_impossible_configurations_are_refused_by_field(changes, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        DecoderConfig(replace(MIXED, **changes))
