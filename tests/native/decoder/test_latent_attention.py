"""Attention to latent vectors: rows have the same bits in any company, and a position keeps one vector."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from services.engine.checkpoint.model_config import Attention
from services.engine.decoder.native import BLOCK_SIZE, Decoder, DecoderConfig
from tests.native.harness.devices import (
    EMULATION,
    count_launches,
    emulated_device,
    in_every_kv_format,
    in_every_weight_format,
    in_weight_formats,
    make_device,
    needs_emulation,
)
from tests.native.harness.parity import relative_error
from tests.native.harness.random_models import LATENT, MODELS, PagedDecoder, random_tokens, random_weights, rope
from tests.native.harness.reference_decoder import ReferenceDecoder
from tests.native.harness.row_invariance import assert_any_chunks_are_alike, assert_any_mixture_is_alike

COMPRESSED = MODELS["latent vectors"]
WIDE = replace(
    COMPRESSED,
    num_heads=40,
    layers=(replace(LATENT, query_rank=0, rank=512, value_dim=32),) * 2,
    ropes=(rope(32, scale=1.3),),
)
"""Of many heads, and without compressed queries."""
TOLERANCES = {"f32": 1e-5, "bf16": 0.05, "int8": 0.12, "fp8": 0.35}


@in_weight_formats("bf16")
def test_rows_of_many_heads_have_the_same_bits_in_any_chunks(device_name, weight_format):
    assert_any_chunks_are_alike(WIDE, device_name, weight_format, threads=2)


@in_weight_formats("bf16")
def test_rows_of_many_heads_have_the_same_bits_in_any_mixture(device_name, weight_format):
    assert_any_mixture_is_alike(WIDE, device_name, weight_format, threads=3)


@pytest.mark.parametrize("config", [COMPRESSED, WIDE], ids=["compressed queries", "many heads"])
@in_every_kv_format
def test_logits_are_those_of_keys_and_values(config, device_name, kv_format):
    """The reference makes each head's keys and values of the latent vectors, as transformers does."""
    tokens = random_tokens(config, 1, 40)
    expected = ReferenceDecoder(config, random_weights(config).items()).logits(tokens[0].tolist())
    decoder = PagedDecoder(config, make_device(device_name, threads=1), kv_format, tokens=tokens)
    found = decoder.forward([(0, position) for position in range(40)])
    assert relative_error(torch.from_numpy(found), expected) < TOLERANCES[kv_format]


@in_every_kv_format
def test_a_position_keeps_one_vector(device_name, kv_format):
    device = make_device(device_name, threads=1)
    decoder = Decoder(device, DecoderConfig(COMPRESSED), weights="f32", kv=kv_format)
    size, scales = {"f32": (4, 0), "bf16": (2, 0)}.get(kv_format, (1, 2 * 4))
    assert decoder.block_bytes == 2 * BLOCK_SIZE * (LATENT.width * size + scales)
    assert decoder.kv_bytes_per_token == 2 * (LATENT.width * size + scales)


@in_every_weight_format
def test_each_position_and_token_changes_later_rows(device_name, weight_format):
    """An earlier token is seen, and so is where it stands."""
    tokens = random_tokens(COMPRESSED, 1, 40)
    rows = [(0, position) for position in range(40)]
    device = make_device(device_name, threads=1)
    expected = PagedDecoder(COMPRESSED, device, weight_format, tokens=tokens).forward(rows)
    for place in (0, 20, 38):
        changed = tokens.copy()
        changed[0, [place, place + 1]] = changed[0, [place + 1, place]]
        found = PagedDecoder(COMPRESSED, device, weight_format, tokens=changed).forward(rows)
        assert np.array_equal(found[:place], expected[:place])
        assert not np.array_equal(found[-1], expected[-1]), place


@needs_emulation
def test_a_gpu_whose_blocks_are_small_refuses_latent_vectors():
    """An A100 takes those that are published, of 512 + 64."""
    published = replace(WIDE, layers=(replace(LATENT, rank=512, turning=64),), ropes=(rope(64),))
    sizes = {"weights": "bf16", "kv": "bf16"}
    Decoder(emulated_device(1, block_memory=163), DecoderConfig(published), **sizes)
    with pytest.raises(ValueError, match=r"the rank of latent vectors is 512; device \S+ handles at most 192"):
        Decoder(emulated_device(1, block_memory=99), DecoderConfig(published), **sizes)


@needs_emulation
def test_all_heads_are_multiplied_together():
    """One launch for the keys of all heads and one for their values, of each layer."""
    decoder = PagedDecoder(WIDE, make_device(EMULATION, threads=1), "bf16", tokens=random_tokens(WIDE, 1, 4))
    before = count_launches()
    decoder.forward([(0, 0), (0, 1)])
    launches = count_launches() - before
    assert sum(count for kernel, count in launches.items() if "ExpertTiles" in kernel) == 2 * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 40}, r"layers\[0\]\.rank is 40; it must be a positive multiple of 32"),
        ({"turning": 0}, r"layers\[0\]\.turning is 0; it must be a positive multiple of 32"),
        ({"turning": 160}, r"layers\[0\]\.turning is 160; it must be in 1 \.\.\. 128"),
        ({"turning": 64}, r"ropes must have one of 32 frequencies, half of layers\[0\]\.turning"),
        ({"key_dim": 1 << 22}, r"num_heads times layers\[0\]\.key_dim is 20971520; it must be in 1"),
        ({"query_rank": -1}, r"layers\[0\]\.query_rank is -1; it must be in 0"),
    ],
)
def test_impossible_shapes_are_refused(changes, message):
    config = replace(COMPRESSED, layers=(replace(LATENT, **changes),))
    with pytest.raises(ValueError, match=message):
        DecoderConfig(config)


def test_all_layers_must_have_the_same_shape():
    layers = (Attention(), LATENT, replace(LATENT, value_dim=32))
    with pytest.raises(ValueError, match=r"layers\[2\]\.latent has another shape than the first layer of its kind"):
        DecoderConfig(replace(COMPRESSED, layers=layers, head_dim=32))
