"""LFM2's configuration: how it is read, under earlier names too, and which fields are refused."""

from pathlib import Path

import pytest
from transformers import Lfm2Config
from transformers.models.lfm2.modeling_lfm2 import Lfm2MLP

from services.engine.checkpoint.architectures.table import read_architecture
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, ShortConvolution
from services.engine.config import EngineConfig
from services.engine.files.json_fields import JsonFields
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.representable import representable_checkpoint

EARLIER = {
    **{"full_attn_idxs": [2], "layer_types": None, "intermediate_size": None, "block_ff_dim": 96},
    **{"tie_word_embeddings": None, "tie_embedding": True, "block_dim": 64, "conv_dim": 64, "conv_dim_out": 64},
    **{"num_heads": 4, "block_norm_eps": 1e-5, "block_use_swiglu": True, "use_pos_enc": True},
}


@pytest.fixture
def folder(tmp_path) -> Path:
    return copy_of(further_checkpoint(Further.LFM2), tmp_path)


def test_earlier_names_of_fields_mean_the_same(folder):
    expected = load_checkpoint(folder).config
    convolution = ShortConvolution(taps=3)
    assert expected.layers == (convolution, convolution, Attention(), convolution)
    edit_json(folder / "config.json", **EARLIER)
    assert load_checkpoint(folder).config == expected


@pytest.mark.parametrize("factor", [1.0, 1.3, 0.9])
@pytest.mark.parametrize("multiple", [1, 28, 256])
@pytest.mark.parametrize("is_adjusted", [True, False])
def test_the_size_of_the_mlp_is_that_of_transformers(folder, factor, multiple, is_adjusted):
    fields = {
        **{"block_ffn_dim_multiplier": factor, "block_multiple_of": multiple},
        "block_auto_adjust_ff_dim": is_adjusted,
    }
    size = Lfm2MLP(Lfm2Config(hidden_size=64, intermediate_size=101, **fields)).w1.out_features
    edit_json(folder / "config.json", intermediate_size=101, **fields)
    assert read_architecture(JsonFields.from_file(folder / "config.json"))[1].intermediate_size == size


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"conv_L_cache": 1}, "field 'conv_L_cache': must be a whole number from 2 to 32, is 1"),
        ({"conv_L_cache": 33}, "field 'conv_L_cache': must be a whole number from 2 to 32, is 33"),
        ({"conv_L_cache": 4}, "conv.conv.weight' has shape [64, 1, 3]; by config.json it must be [256]"),
        ({"conv_bias": 1}, "field 'conv_bias': must be true or false"),
        ({"conv_bias": False}, "conv.conv.bias' has no place"),
        ({"layer_types": ["conv"]}, "field 'layer_types': must be 4 of full_attention and conv, is ['conv']"),
        ({"layer_types": ["conv", "mamba"] * 2}, "field 'layer_types': must be 4 of full_attention and conv"),
        ({"full_attn_idxs": [1]}, "field 'full_attn_idxs': must be the layers of full_attention in layer_types"),
        ({"full_attn_idxs": [4]}, "field 'full_attn_idxs': has 4; there are 4 layers"),
        ({"full_attn_idxs": 2}, "field 'full_attn_idxs': must be a list of layers, is 2"),
        ({"block_multiple_of": 0}, "field 'block_multiple_of': must be a whole number from 1"),
        ({"block_ffn_dim_multiplier": -1.0}, "field 'block_ffn_dim_multiplier': must be a finite number above 0"),
        ({"block_ffn_dim_multiplier": 1e6}, "field 'intermediate_size': leaves an MLP of"),
        ({"block_auto_adjust_ff_dim": "yes"}, "field 'block_auto_adjust_ff_dim': must be true or false"),
        ({"conv_dim": 63}, "field 'conv_dim': must be hidden_size, 64, is 63"),
        ({"block_norm_eps": 1e-6}, "field 'block_norm_eps': must be norm_eps, 1e-05, is 1e-06"),
        ({"use_pos_enc": False}, "field 'use_pos_enc': only true is supported"),
        ({"hidden_act": "gelu"}, "field 'hidden_act': 'gelu' is not supported"),
    ],
)
def test_unsupported_fields_are_refused_by_name(folder, fields, problem):
    edit_json(folder / "config.json", **fields)
    assert problem in refusal(folder)


def test_a_missing_tap_is_refused_by_its_tensor(folder):
    edit_weights(folder, lambda tensors: tensors.pop("model.layers.1.conv.conv.weight"))
    assert "tensor 'model.layers.1.conv.conv.weight' is missing; Lfm2ForCausalLM needs it" in refusal(folder)


def test_heads_of_several_numbers_are_refused_by_their_name(tmp_path):
    folder = representable_checkpoint(Further.LFM2, tmp_path)
    for heads, problem in (([0, 1, 2, 0], "must be a whole number"), ([0, 2], "has 2 elements; there are 4 layers")):
        path = write_gguf(folder, tmp_path / "model.gguf", attention__head_count_kv=heads)
        said = refusal(path)
        assert "'lfm2.attention.head_count_kv'" in said
        assert problem in said


@pytest.mark.parametrize(("kv", "of_a_token"), [("f32", 4), ("bf16", 2), ("int8", 2)])
def test_a_block_holds_convolution_inputs_beside_keys_and_values(folder, kv, of_a_token):
    model = load_checkpoint(folder).config
    head = {"f32": 16 * 4, "bf16": 16 * 2, "int8": 16 + 4}[kv]
    assert EngineConfig(model=str(folder), isa="portable", threads=1, kv=kv).block_bytes(model) == 32 * (
        2 * 2 * head + 3 * 64 * of_a_token
    )
