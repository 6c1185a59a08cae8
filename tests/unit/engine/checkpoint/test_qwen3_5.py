"""Qwen 3.5's folders: which fields and tensors are refused, and which are accepted without effect."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, GatedDelta
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import Further, further_checkpoint

Tensors = dict[str, torch.Tensor]
LINEAR, FULL = "linear_attention", "full_attention"
DELTA = "model.layers.1.linear_attn."
BOTH = (Further.QWEN3_5, Further.QWEN3_5_PICTURES)


@pytest.fixture
def folder(tmp_path) -> Path:
    return copy_of(further_checkpoint(Further.QWEN3_5), tmp_path)


def edit_text(folder: Path, kind: Further, **changes: object) -> None:
    """Set fields of the text part."""
    if kind is Further.QWEN3_5:
        edit_json(folder / "config.json", **changes)
    else:
        edit_json(folder / "config.json", text_config={**text_fields(folder), **changes})


def text_fields(folder: Path) -> dict[str, object]:
    fields: dict[str, object] = json.loads((folder / "config.json").read_text())["text_config"]
    return fields


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"linear_num_value_heads": 3},
            "field 'linear_num_value_heads': must be a multiple of linear_num_key_heads 2, is 3",
        ),
        ({"linear_num_value_heads": 0}, "field 'linear_num_value_heads': must be a whole number from 1 to 4096, is 0"),
        ({"linear_num_key_heads": 8192}, "field 'linear_num_key_heads': must be a whole number from 1 to 4096"),
        ({"layer_types": [LINEAR]}, "field 'layer_types': must be 4 of full_attention and linear_attention, is ["),
        (
            {"layer_types": [LINEAR, "mamba"] * 2},
            "field 'layer_types': must be 4 of full_attention and linear_attention",
        ),
        ({"layer_types": [[], {}, FULL, LINEAR]}, "field 'layer_types': must be 4 of full_attention and"),
        ({"layer_types": LINEAR}, "field 'layer_types': must be 4 of full_attention and linear_attention, is 'linear"),
        ({"layer_types": [LINEAR] * 4}, "field 'layer_types': must have full_attention at least once"),
        (
            {"layer_types": None, "full_attention_interval": 5},
            "field 'full_attention_interval': must be a whole number from 1 to 4, is 5",
        ),
        (
            {"layer_types": None, "full_attention_interval": 0},
            "field 'full_attention_interval': must be a whole number from 1 to 4, is 0",
        ),
        (
            {"layer_types": None, "num_hidden_layers": 2},
            "field 'full_attention_interval': must be a whole number from 1 to 2, is 4",
        ),
        ({"linear_conv_kernel_dim": 0}, "field 'linear_conv_kernel_dim': must be a whole number from 2 to 32, is 0"),
        (
            {"linear_conv_kernel_dim": 10**6},
            "field 'linear_conv_kernel_dim': must be a whole number from 2 to 32, is 1000000",
        ),
        ({"linear_key_head_dim": 48}, "field 'linear_key_head_dim': must be a multiple of 32, is 48"),
        ({"linear_value_head_dim": 8}, "field 'linear_value_head_dim': must be a multiple of 32, is 8"),
        ({"linear_key_head_dim": 288}, "field 'linear_key_head_dim': must be a whole number from 1 to 256, is 288"),
        ({"linear_value_head_dim": 512}, "field 'linear_value_head_dim': must be a whole number from 1 to 256, is 512"),
        ({"attention_bias": True}, "field 'attention_bias': only false is supported"),
        ({"attention_bias": "no"}, "field 'attention_bias': must be true or false"),
        ({"attn_output_gate": False}, "field 'attn_output_gate': only true is supported"),
        (
            {"output_gate_type": "sigmoid"},
            "field 'output_gate_type': 'sigmoid' is not supported; allowed are silu, swish",
        ),
        ({"hidden_act": "gelu"}, "field 'hidden_act': 'gelu' is not supported; allowed are silu, swish"),
        (
            {"model_type": "qwen3_next"},
            "field 'model_type': must be 'qwen3_5_text', as architectures is Qwen3_5ForCausalLM",
        ),
        ({"sliding_window": 16}, "field 'sliding_window': only null, false or 0 is supported here, is 16"),
        ({"num_experts": 8}, "field 'num_experts': only null, false or 0 is supported here, is 8"),
    ],
)
def test_unsupported_fields_are_refused_by_name(folder, fields, problem):
    edit_json(folder / "config.json", **fields)
    assert problem in refusal(folder)


def _without(name: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.pop(name)


def _as(name: str, *shape: int) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: torch.ones(shape)})


BAD = [
    *(
        (_without(DELTA + name), f"tensor '{DELTA}{name}' is missing; Qwen3_5ForCausalLM needs it")
        for name in ("A_log", "dt_bias", "conv1d.weight", "in_proj_qkv.weight", "in_proj_a.weight", "norm.weight")
    ),
    (_as(DELTA + "A_log", 2), f"tensor '{DELTA}A_log' has shape [2]; by config.json it must be [4]"),
    (_as(DELTA + "A_log", 4, 1), f"tensor '{DELTA}A_log' has shape [4, 1]; by config.json it must be [4]"),
    (_as(DELTA + "conv1d.weight", 256, 1, 3), "conv1d.weight' has shape [256, 1, 3]; by config.json it must be [1024]"),
    (_as(DELTA + "conv1d.weight", 4, 1, 256), "conv1d.weight' has shape [4, 1, 256]; by config.json it must be [1024]"),
    (_as(DELTA + "conv1d.weight", 256, 4), "conv1d.weight' has shape [256, 4]; by config.json it must be [1024]"),
    (
        _as(DELTA + "in_proj_qkv.weight", 320, 64),
        "in_proj_qkv.weight' has shape [320, 64]; by config.json it must be [256, 64]",
    ),
    (
        _as(DELTA + "out_proj.weight", 64, 64),
        "out_proj.weight' has shape [64, 64]; by config.json it must be [64, 128]",
    ),
    (
        _as("model.layers.3.self_attn.q_proj.weight", 128, 64),
        "q_proj.weight' has shape [128, 64]; by config.json it must be [256, 64]",
    ),
    (_as(DELTA + "in_proj_qkvz.weight", 4, 64), f"tensor '{DELTA}in_proj_qkvz.weight' has no place in"),
    (_as("model.layers.3.linear_attn.A_log", 4), "tensor 'model.layers.3.linear_attn.A_log' has no place in"),
    (_as(DELTA + "conv1d.bias", 256), f"tensor '{DELTA}conv1d.bias' has no place in"),
]


@pytest.mark.parametrize(("edit", "problem"), BAD, ids=[problem[:50] for _, problem in BAD])
def test_missing_and_misshapen_tensors_are_refused_by_name(folder, edit, problem):
    edit_weights(folder, edit)
    assert problem in refusal(folder)


@pytest.mark.parametrize("kind", BOTH)
def test_layers_for_further_predictions_are_left_out(tmp_path, kind, caplog):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    expected = load_checkpoint(folder)
    further = {"mtp.fc.weight": torch.ones(64, 128), "mtp.layers.0.self_attn.q_proj.weight": torch.ones(2, 2)}
    edit_weights(folder, lambda tensors: tensors.update(further))
    edit_text(folder, kind, mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False)
    found = load_checkpoint(folder)
    assert found.config == expected.config
    assert found.weights_digest() == expected.weights_digest()
    assert not caplog.records


@pytest.mark.parametrize("kind", BOTH)
def test_fields_of_published_folders_are_read_silently(tmp_path, kind, caplog):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    expected = load_checkpoint(folder).config
    assert [type(layer) for layer in expected.layers] == [GatedDelta, GatedDelta, GatedDelta, Attention]
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
    pictures = {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
    edit_text(
        folder,
        kind,
        rope_parameters=rope | pictures,
        **{"mamba_ssm_dtype": "float32", "full_attention_interval": 4, "attn_output_gate": True},
        **{"output_gate_type": "swish", "mlp_only_layers": [], "partial_rotary_factor": 0.25},
    )
    assert load_checkpoint(folder).config == expected
    assert not caplog.records


def test_layers_without_a_list_follow_the_interval(folder):
    expected = load_checkpoint(folder).config
    edit_json(folder / "config.json", layer_types=None)
    assert load_checkpoint(folder).config == expected


def test_a_text_part_of_another_type_is_refused(tmp_path):
    folder = copy_of(further_checkpoint(Further.QWEN3_5_PICTURES), tmp_path)
    edit_json(folder / "config.json", model_type="qwen3_vl")
    assert "field 'model_type': must be 'qwen3_5', by architectures, is 'qwen3_vl'" in refusal(folder)
    edit_json(folder / "config.json", model_type="qwen3_5", text_config={**text_fields(folder), "model_type": "qwen3"})
    said = refusal(folder)
    assert "text_config: field 'model_type': 'qwen3' is not supported; allowed are qwen3_5_text" in said
