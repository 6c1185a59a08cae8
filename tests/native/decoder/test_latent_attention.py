"""Attention to latent vectors: rows have the same bits in any company, and a position keeps one vector."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.checkpoint.model_config import Attention, LatentAttention
from services.engine.decoder.native import BLOCK_SIZE, Decoder, DecoderConfig, Device, isas
from tests.native.harness.devices import EMULATION, make_device, needs_emulation
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens, rope
from tests.native.harness.row_invariance import assert_any_chunks_are_alike, assert_any_mixture_is_alike

LATENT = LatentAttention(query_rank=48, rank=64, turning=32, key_dim=64, value_dim=96, norm_eps=1e-6)
MODELS = {
    "compressed queries": replace(PLAIN, num_heads=5, num_kv_heads=1, layers=(LATENT, LATENT), ropes=(rope(32),)),
    "whole queries, many heads": replace(
        PLAIN,
        num_heads=40,
        num_kv_heads=1,
        layers=(replace(LATENT, query_rank=0, rank=512, value_dim=32),) * 2,
        ropes=(rope(32, scale=1.3),),
    ),
}
FORMATS = ("bf16", "f32", "int8")


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_rows_have_the_same_bits_in_any_chunks(config, weight_format, isa):
    assert_any_chunks_are_alike(config, isa, weight_format, threads=2)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("weight_format", FORMATS)
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_rows_have_the_same_bits_in_any_mixture(config, weight_format, isa):
    assert_any_mixture_is_alike(config, isa, weight_format, threads=3)


@pytest.mark.parametrize(("kv", "size"), [("f32", 4), ("bf16", 2), ("int8", 1)])
def test_a_position_keeps_one_vector(kv, size):
    decoder = Decoder(
        Device.cpu(isas()[0], threads=1), DecoderConfig(MODELS["compressed queries"]), weights="f32", kv=kv
    )
    scales = 2 * 4 if kv == "int8" else 0
    assert decoder.block_bytes == 2 * BLOCK_SIZE * (LATENT.width * size + scales)


@pytest.mark.parametrize("weight_format", FORMATS)
def test_each_position_and_token_changes_later_rows(weight_format):
    """An earlier token is seen, and so is where it stands."""
    config = MODELS["compressed queries"]
    tokens = random_tokens(config, 1, 40)
    rows = [(0, position) for position in range(40)]
    device = make_device(isas()[0], threads=1)
    expected = PagedDecoder(config, device, weight_format, tokens=tokens).forward(rows)
    for place in (0, 20, 38):
        changed = tokens.copy()
        changed[0, [place, place + 1]] = changed[0, [place + 1, place]]
        found = PagedDecoder(config, device, weight_format, tokens=changed).forward(rows)
        assert np.array_equal(found[:place], expected[:place])
        assert not np.array_equal(found[-1], expected[-1]), place


@needs_emulation
def test_a_gpu_says_that_it_has_no_latent_vectors():
    with pytest.raises(ValueError, match=r"the rank of latent vectors is 64; device \S+ handles at most 0"):
        Decoder(
            make_device(EMULATION, threads=1), DecoderConfig(MODELS["compressed queries"]), weights="bf16", kv="bf16"
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 40}, r"layers\[0\]\.rank is 40; it must be a positive multiple of 32"),
        ({"turning": 0}, r"layers\[0\]\.turning is 0; it must be a positive multiple of 32"),
        ({"turning": 64}, r"ropes must have one of 32 frequencies, half of layers\[0\]\.turning"),
        ({"key_dim": 1 << 22}, r"num_heads times layers\[0\]\.key_dim is 20971520; it must be in 1"),
        ({"query_rank": -1}, r"layers\[0\]\.query_rank is -1; it must be in 0"),
    ],
)
def test_impossible_shapes_are_refused(changes, message):
    config = replace(MODELS["compressed queries"], layers=(replace(LATENT, **changes),))
    with pytest.raises(ValueError, match=message):
        DecoderConfig(config)


def test_all_layers_must_have_the_same_shape():
    layers = (Attention(), LATENT, replace(LATENT, value_dim=32))
    with pytest.raises(ValueError, match=r"layers\[2\]\.latent has another shape than the first layer of its kind"):
        DecoderConfig(replace(MODELS["compressed queries"], layers=layers, head_dim=32))
