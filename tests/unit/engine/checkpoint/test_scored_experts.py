"""Experts that are scored by sigmoids: how LFM2's and GLM's mixtures are read, and which fields are refused."""

import pytest
import torch

from services.engine.checkpoint.architectures.table import read_architecture
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, Experts, ExpertScores, QkNorm, ShortConvolution
from services.engine.checkpoint.weight_shapes import count_active_parameters, count_parameters, weight_shapes
from services.engine.files.json_fields import JsonFields
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf

DENSE = Attention(mlp_size=96, has_experts=False)


def test_layers_without_experts_come_first():
    config = load_checkpoint(further_checkpoint(Further.LFM2_MOE)).config
    convolution = ShortConvolution(taps=3)
    assert config.layers == (
        ShortConvolution(taps=3, mlp_size=96, has_experts=False),
        Attention(),
        convolution,
        Attention(),
    )
    assert config.intermediate_size == 0
    assert config.experts == Experts(
        **{"count": 8, "per_token": 3, "size": 64, "are_normalised": True, "has_choice_bias": True},
        **{"scores": ExpertScores.SIGMOID, "sum_offset": 1e-6, "weight_scale": 1.7},
    )
    shapes = weight_shapes(config)
    assert [name for name in shapes if name.startswith("layers.0.") and "conv" not in name] == [
        *("layers.0.gate", "layers.0.up", "layers.0.down", "layers.0.attention_norm", "layers.0.mlp_norm")
    ]
    assert "layers.1.gate" not in shapes
    assert count_parameters(config) - count_active_parameters(config) > 3 * 5 * 3 * 64 * 64


def test_groups_and_the_expert_for_all_tokens_are_read():
    config = load_checkpoint(further_checkpoint(Further.GLM4_MOE)).config
    assert config.layers == (DENSE, *[Attention()] * 3)
    assert config.intermediate_size == 2 * 64
    assert (config.qk_norm, config.attention_bias, config.output_bias) == (QkNorm.HEAD, True, False)
    assert config.experts == Experts(
        **{"count": 12, "per_token": 3, "size": 64, "are_normalised": True, "has_choice_bias": True},
        **{"scores": ExpertScores.SIGMOID, "sum_offset": 1e-20, "weight_scale": 2.5},
        **{"groups": 4, "groups_per_token": 2},
    )
    assert load_checkpoint(further_checkpoint(Further.GLM4_MOE_AIR)).config.layers == (DENSE, DENSE, *[Attention()] * 2)


def test_without_shared_experts_there_is_no_mlp_beside_them(tmp_path):
    folder = copy_of(further_checkpoint(Further.GLM4_MOE), tmp_path)
    edit_json(folder / "config.json", n_shared_experts=0)
    assert "shared_experts" in refusal(folder)
    edit_weights(folder, lambda tensors: [tensors.pop(name) for name in [*tensors] if "shared" in name])
    assert load_checkpoint(folder).config.intermediate_size == 0


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        (Further.GLM4_MOE, {"n_group": 5}, "'n_group': must divide the number of experts, 12, is 5"),
        (Further.GLM4_MOE, {"n_group": 12}, "'n_group': must be a whole number from 1 to 6, is 12"),
        (Further.GLM4_MOE, {"topk_group": 5}, "'topk_group': must be a whole number from 1 to 4, is 5"),
        (
            Further.GLM4_MOE,
            {"num_experts_per_tok": 7},
            "'topk_group': leaves 6 experts, fewer than num_experts_per_tok 7",
        ),
        (Further.GLM4_MOE, {"n_routed_experts": 0}, "'n_routed_experts': must be a whole number from 1 to 1024, is 0"),
        (Further.GLM4_MOE, {"routed_scaling_factor": -1.0}, "'routed_scaling_factor': must be a finite number above 0"),
        (Further.GLM4_MOE, {"first_k_dense_replace": 5}, "'first_k_dense_replace': must be a whole number from 0 to 4"),
        (Further.GLM4_MOE, {"first_k_dense_replace": 2}, "tensor 'model.layers.1.mlp.gate_proj.weight' is missing"),
        (Further.GLM4_MOE, {"n_shared_experts": 1}, "has shape [128, 64]; by config.json it must be [64, 64]"),
        (Further.GLM4_MOE, {"use_qk_norm": False}, "k_norm.weight' has no place in Glm4MoeForCausalLM"),
        (Further.LFM2_MOE, {"num_dense_layers": -1}, "'num_dense_layers': must be a whole number from 0 to 4, is -1"),
        (Further.LFM2_MOE, {"use_expert_bias": False}, "expert_bias' has no place in Lfm2MoeForCausalLM"),
        (Further.LFM2_MOE, {"use_expert_bias": 1}, "'use_expert_bias': must be true or false, is 1"),
        (Further.LFM2_MOE, {"norm_topk_prob": None, "num_experts_per_tok": 9}, "from 1 to 8, is 9"),
        (Further.GLM4_MOE_AIR, {"num_hidden_layers": 3}, "tensor 'model.layers.3.input_layernorm.weight' has no place"),
        (Further.GLM4_MOE, {"n_shared_experts": 65}, "'n_shared_experts': must be a whole number from 0 to 64, is 65"),
        (Further.LFM2_MOE, {"n_group": 2}, "'n_group': only 1 is supported, is 2"),
        (Further.LFM2_MOE, {"block_ff_dim": 128}, "'block_ff_dim': only null, false or 0 is supported here, is 128"),
        (Further.LFM2_MOE, {"full_attn_idxs": [0]}, "'full_attn_idxs': must be the layers of full_attention"),
        (Further.QWEN3_MOE, {"n_routed_experts": 16}, "'n_routed_experts': only null, false or 0 is supported here"),
        (Further.QWEN3_MOE, {"routed_scaling_factor": 2.5}, "'routed_scaling_factor': only 1 is supported, is 2.5"),
        (Further.QWEN3_MOE, {"first_k_dense_replace": 1}, "'first_k_dense_replace': only null, false or 0"),
        (Further.LFM2, {"num_experts": 8}, "'num_experts': only null, false or 0 is supported here, is 8"),
    ],
)
def test_unsupported_fields_are_refused_by_name(tmp_path, kind, fields, problem):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    edit_json(folder / "config.json", **fields)
    assert problem in refusal(folder)


@pytest.mark.parametrize("kind", [Further.LFM2_MOE, Further.GLM4_MOE])
def test_a_missing_bias_of_choices_is_refused_by_its_tensor(tmp_path, kind):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    name = {
        Further.LFM2_MOE: "model.layers.2.feed_forward.expert_bias",
        Further.GLM4_MOE: "model.layers.2.mlp.gate.e_score_correction_bias",
    }[kind]
    edit_weights(folder, lambda tensors: tensors.pop(name))
    assert f"tensor '{name}' is missing" in refusal(folder)


def test_layers_that_predict_further_tokens_are_ignored(tmp_path):
    folder = copy_of(further_checkpoint(Further.GLM4_MOE_AIR), tmp_path)
    expected = load_checkpoint(folder)
    further = {f"model.layers.{layer}.eh_proj.weight": torch.ones(2, 4) for layer in (4, 5)}
    edit_json(folder / "config.json", num_nextn_predict_layers=2)
    edit_weights(folder, lambda tensors: tensors.update(further))
    found = load_checkpoint(folder)
    assert found.config == expected.config
    assert found.weights_digest() == expected.weights_digest()


@pytest.mark.parametrize(
    ("kind", "keys", "problem"),
    [
        (
            Further.GLM4_MOE,
            {"expert_gating_func": 1},
            "'glm4moe.expert_gating_func': only 2, sigmoid, is supported",
        ),
        (Further.QWEN3_MOE, {"expert_gating_func": 2}, "'qwen3moe.expert_gating_func': only 1, softmax, is supported"),
        (Further.QWEN3_MOE, {"expert_group_used_count": 2}, "'qwen3moe.expert_group_used_count': only 0 or false is"),
        (Further.QWEN3_MOE, {"leading_dense_block_count": 1}, "'qwen3moe.leading_dense_block_count': only 0 or false"),
        (Further.GLM4_MOE, {"expert_group_count": 5}, "'glm4moe.expert_group_count': must divide"),
        (Further.GLM4_MOE, {"leading_dense_block_count": 9}, "'glm4moe.leading_dense_block_count': must be a whole"),
        (Further.GLM4_MOE, {"expert_weights_scale": -1.0}, "'glm4moe.expert_weights_scale': must be a finite number"),
        (Further.LFM2_MOE, {"expert_weights_norm": 3}, "'lfm2moe.expert_weights_norm': must be true or false, is 3"),
    ],
)
def test_unsupported_keys_of_files_are_refused_by_name(tmp_path, kind, keys, problem):
    assert problem in refusal(write_gguf(further_checkpoint(kind), tmp_path / "model.gguf", **keys))


@pytest.mark.parametrize(("kind", "are_normalised"), [(Further.LFM2_MOE, True), (Further.GLM4_MOE, False)])
def test_files_without_keys_have_the_defaults_of_llama_cpp(tmp_path, kind, are_normalised):
    path = write_gguf(further_checkpoint(kind), tmp_path / "model.gguf", expert_weights_scale=0.0)
    absent = b"expert_weights_norm"
    path.write_bytes(path.read_bytes().replace(absent, absent[::-1]))
    experts = load_checkpoint(path).config.experts
    assert experts is not None
    assert (experts.weight_scale, experts.are_normalised) == (1.0, are_normalised)
    assert experts.has_choice_bias


def test_the_published_configuration_of_glm_4_5_air_is_read():
    fields = {
        **{"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "attention_bias": True, "head_dim": 128},
        **{"attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 10944},
        **{"partial_rotary_factor": 0.5, "max_position_embeddings": 131072, "n_group": 1, "topk_group": 1},
        **{"moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": True},
        **{"num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46, "num_key_value_heads": 8},
        **{"num_nextn_predict_layers": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 1000000},
        **{"routed_scaling_factor": 1.0, "first_k_dense_replace": 1, "tie_word_embeddings": False},
        **{"use_cache": True, "use_qk_norm": False, "vocab_size": 151552, "pad_token_id": 151329},
    }
    _, config = read_architecture(JsonFields(fields, "config.json"))
    assert config.layers == (Attention(mlp_size=10944, has_experts=False), *[Attention()] * 45)
    assert config.intermediate_size == 1408
    assert len(config.ropes[0].frequencies) == 32
    assert 104e9 < count_parameters(config) < 111e9
    assert 9e9 < count_active_parameters(config) < 13e9


def test_the_published_configuration_of_lfm2_8b_is_read():
    attending = {2, 6, 10, 14, 18, 21}
    fields = {
        **{"architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "conv_L_cache": 3, "conv_bias": False},
        **{"hidden_size": 2048, "intermediate_size": 7168, "max_position_embeddings": 128000, "norm_eps": 1e-05},
        **{"moe_intermediate_size": 1792, "norm_topk_prob": True, "num_attention_heads": 32, "num_dense_layers": 2},
        **{"num_experts": 32, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8},
        **{"rope_theta": 1000000.0, "routed_scaling_factor": 1.0, "use_expert_bias": True, "vocab_size": 65536},
        "layer_types": ["full_attention" if layer in attending else "conv" for layer in range(24)],
    }
    _, config = read_architecture(JsonFields(fields, "config.json"))
    assert 8.2e9 < count_parameters(config) < 8.5e9
    assert 1.3e9 < count_active_parameters(config) < 1.7e9
