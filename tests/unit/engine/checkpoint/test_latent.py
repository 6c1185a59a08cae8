"""Attention to latent vectors: how the folders of GLM 4.7 Flash, DeepSeek V2 and V3 are read, and what is refused."""

import json
import math

import numpy as np
import pytest
import torch

from services.engine.checkpoint.architectures.table import read_architecture
from services.engine.checkpoint.attached.attached_drafter import find_own_drafter
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Experts, ExpertScores, LatentAttention
from services.engine.checkpoint.weight_shapes import count_active_parameters, count_parameters
from services.engine.files.json_fields import JsonFields
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.mtp_folders import write_mtp_folder
from tests.harness.models.quantised_folders import WAYS, quantise

SHAPE = LatentAttention(query_rank=64, rank=64, turning=32, key_dim=64, value_dim=96, norm_eps=1e-6)
DENSE = {"mlp_size": 96, "has_experts": False}
EACH_HEAD = 64 + 96  # rows of keys and values


def test_the_sizes_of_the_vectors_are_read():
    config = load_checkpoint(further_checkpoint(Further.DEEPSEEK_V3)).config
    assert config.layers == (LatentAttention(**{**_fields(SHAPE), **DENSE}), *[SHAPE] * 3)
    assert config.experts == Experts(
        **{"count": 12, "per_token": 3, "size": 64, "are_normalised": True, "has_choice_bias": True},
        **{"scores": ExpertScores.SIGMOID, "sum_offset": 1e-20, "weight_scale": 2.5},
        **{"groups": 4, "groups_per_token": 2},
    )
    assert config.intermediate_size == 64
    assert config.norm_eps == 0.01
    assert len(config.ropes[0].frequencies) == 16


def _fields(shape: LatentAttention) -> dict[str, object]:
    return {
        name: getattr(shape, name) for name in ("query_rank", "rank", "turning", "key_dim", "value_dim", "norm_eps")
    }


def test_scores_grow_with_the_context_as_deepseek_says():
    config = load_checkpoint(further_checkpoint(Further.DEEPSEEK_V2)).config
    growth = {scale: 0.1 * scale * math.log(8) + 1 for scale in (0.707, 1.4)}
    assert config.query_scale == pytest.approx(96**-0.5 * growth[1.4] ** 2)
    assert config.ropes[0].scale == pytest.approx(growth[0.707] / growth[1.4])
    assert load_checkpoint(further_checkpoint(Further.DEEPSEEK_V2_LITE)).config.query_scale == 96**-0.5


def test_queries_may_be_made_of_the_input_itself():
    config = load_checkpoint(further_checkpoint(Further.DEEPSEEK_V2)).config
    assert config.latent is not None
    assert config.latent.query_rank == 0
    assert config.experts == Experts(
        **{"count": 12, "per_token": 3, "size": 64, "are_normalised": False, "weight_scale": 16.0},
        **{"groups": 4, "groups_per_token": 2},
    )
    assert load_checkpoint(further_checkpoint(Further.DEEPSEEK_V2_LITE)).config.experts == Experts(
        count=8, per_token=3, size=64, are_normalised=False
    )


@pytest.mark.parametrize("kind", [Further.GLM4_MOE_LITE, Further.DEEPSEEK_V2])
def test_each_head_has_matrices_of_its_own(kind):
    checkpoint, stored = load_checkpoint(further_checkpoint(kind)), {}
    edit_weights(further_checkpoint(kind), stored.update)
    weights = dict(checkpoint.weights())
    both = stored["model.layers.1.self_attn.kv_b_proj.weight"].float().numpy()
    for head in range(4):
        rows = both[EACH_HEAD * head : EACH_HEAD * (head + 1)]
        np.testing.assert_array_equal(weights[f"layers.1.k_up.{head}"], rows[:64].T)
        np.testing.assert_array_equal(weights[f"layers.1.v_up.{head}"], rows[64:])


@pytest.mark.parametrize("way", ["gptq", "awq", "int4 packed", "float8 by outputs"])
def test_quantised_folders_stand_for_the_same_values(tmp_path, way):
    plain, folder = (
        copy_of(further_checkpoint(Further.DEEPSEEK_V3), tmp_path / name) for name in ("plain", "quantised")
    )
    values = quantise(folder, WAYS[way])
    edit_weights(plain, lambda tensors: tensors.update(values))
    expected = dict(load_checkpoint(plain).weights())
    found = load_checkpoint(folder)
    for name, each in found.weights():
        np.testing.assert_array_equal(each, expected[name], err_msg=name)
    kinds = found.matrices()
    assert kinds["layers.1.q"] == kinds["layers.1.kv_down"] == WAYS[way].kind
    assert {kinds["layers.1.k_up.0"], kinds["layers.1.v_up.3"]} == {"F32"}, "they are taken apart"


@pytest.mark.parametrize("kind", [Further.GLM4_MOE_LITE, Further.DEEPSEEK_V3])
def test_its_own_layer_has_the_same_attention(tmp_path, kind):
    drafter = find_own_drafter(load_checkpoint(write_mtp_folder(kind, tmp_path)))
    assert drafter is not None
    (layer,) = drafter.checkpoint.config.layers
    assert isinstance(layer, LatentAttention)
    assert "layers.0.k_up.3" in drafter.checkpoint.matrices()


@pytest.mark.parametrize(
    ("kind", "fields", "problem"),
    [
        (Further.GLM4_MOE_LITE, {"kv_lora_rank": 40}, "'kv_lora_rank': must be a multiple of 32, is 40"),
        (Further.GLM4_MOE_LITE, {"v_head_dim": 0}, "'v_head_dim': must be a whole number from 1 to 8192, is 0"),
        (Further.GLM4_MOE_LITE, {"qk_rope_head_dim": 160}, "'qk_rope_head_dim': must be a whole number from 1 to 128"),
        (Further.GLM4_MOE_LITE, {"qk_rope_head_dim": 48}, "'qk_rope_head_dim': must be a multiple of 32, is 48"),
        (Further.GLM4_MOE_LITE, {"q_lora_rank": -1}, "'q_lora_rank': must be a whole number from 0 to 16384, is -1"),
        (
            Further.GLM4_MOE_LITE,
            {"q_lora_rank": None},
            "q_a_proj.weight' has shape [48, 64]; by config.json it must be [768",
        ),
        (
            Further.GLM4_MOE_LITE,
            {"kv_lora_rank": 96},
            "kv_a_proj_with_mqa.weight' has shape [96, 64]; by config.json it",
        ),
        (Further.GLM4_MOE_LITE, {"qk_nope_head_dim": 32}, "q_b_proj.weight' has shape"),
        (
            Further.GLM4_MOE_LITE,
            {"v_head_dim": 64},
            "kv_b_proj.weight' has shape [640, 64]; by config.json it must be [512",
        ),
        (Further.GLM4_MOE_LITE, {"attention_bias": True}, "'attention_bias': only false is supported"),
        (Further.GLM4_MOE_LITE, {"rope_interleave": False}, "'rope_interleave': only true is supported"),
        (
            Further.GLM4_MOE_LITE,
            {"topk_method": "greedy"},
            "'topk_method': 'greedy' is not supported; allowed are noaux",
        ),
        (
            Further.GLM4_MOE_LITE,
            {"mlp_layer_types": ["sparse"]},
            "'mlp_layer_types': must be 4 words, some 'dense' and",
        ),
        (
            Further.GLM4_MOE_LITE,
            {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]},
            "'mlp_layer_types': must be 4 words, some 'dense' and then 'sparse'",
        ),
        (
            Further.DEEPSEEK_V3,
            {"scoring_func": "softmax"},
            "'scoring_func': 'softmax' is not supported; allowed are sig",
        ),
        (Further.DEEPSEEK_V3, {"moe_layer_freq": 2}, "'moe_layer_freq': only 1 is supported, is 2"),
        (
            Further.DEEPSEEK_V2,
            {"scoring_func": "sigmoid"},
            "'scoring_func': 'sigmoid' is not supported; allowed are sof",
        ),
        (Further.DEEPSEEK_V2, {"norm_topk_prob": True}, "'norm_topk_prob': only false is supported"),
        (Further.DEEPSEEK_V2, {"mlp_bias": True}, "'mlp_bias': only false is supported"),
        (
            Further.DEEPSEEK_V2,
            {"topk_method": "noaux_tc"},
            "'topk_method': 'noaux_tc' is not supported; allowed are gr",
        ),
        (Further.DEEPSEEK_V2, {"topk_group": 5}, "'topk_group': must be a whole number from 1 to 4, is 5"),
        (Further.LFM2, {"kv_lora_rank": 64}, "'kv_lora_rank': only null, false or 0 is supported here, is 64"),
    ],
)
def test_unsupported_fields_are_refused_by_name(tmp_path, kind, fields, problem):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    edit_json(folder / "config.json", **fields)
    assert problem in refusal(folder)


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (
            lambda name, tensors: tensors.pop(name),
            "tensor 'model.layers.2.self_attn.kv_b_proj.weight' is missing",
        ),
        (
            lambda name, tensors: tensors.update({name: tensors[name][:-1].clone()}),
            "'model.layers.2.self_attn.kv_b_proj.weight' has shape [639, 64]; by config.json it must be [640, 64]",
        ),
        (
            lambda name, tensors: tensors.update({name: tensors[name].to(torch.int32)}),
            "tensor 'model.layers.2.self_attn.kv_b_proj.weight' is I32; it must be",
        ),
    ],
)
def test_keys_and_values_that_do_not_fit_are_refused(tmp_path, edit, problem):
    folder = copy_of(further_checkpoint(Further.GLM4_MOE_LITE), tmp_path)
    edit_weights(folder, lambda tensors: edit("model.layers.2.self_attn.kv_b_proj.weight", tensors))
    assert problem in refusal(folder)


@pytest.mark.parametrize(
    ("kind", "keys", "problem"),
    [
        (
            Further.DEEPSEEK_V3,
            {"attention__key_length_mla": 32},
            "mla': must be a whole number above rope.dimension_count, 32, is 32",
        ),
        (
            Further.DEEPSEEK_V3,
            {"rope__scaling__yarn_log_multiplier": -0.1},
            "log_multiplier': must be a number from 0 on",
        ),
        (
            Further.DEEPSEEK_V3,
            {"attention__key_length_mla": 100},
            "'deepseek2.attention.key_length_mla': must be a mult",
        ),
        (
            Further.DEEPSEEK_V3,
            {"attention__kv_lora_rank": 33},
            "'deepseek2.attention.kv_lora_rank': must be a multiple",
        ),
        (
            Further.DEEPSEEK_V3,
            {"attention__value_length_mla": 64},
            "attn_v_b.weight' has shape [384, 64]; by the file's",
        ),
        (
            Further.DEEPSEEK_V2,
            {"expert_weights_norm": True},
            "'deepseek2.expert_weights_norm': only false is supported",
        ),
        (
            Further.DEEPSEEK_V2,
            {"expert_gating_func": 3},
            "'deepseek2.expert_gating_func': only 1, softmax, is supported",
        ),
        (Further.DEEPSEEK_V2, {"expert_group_count": 5}, "'deepseek2.expert_group_count': must divide"),
    ],
)
def test_unsupported_keys_of_files_are_refused_by_name(tmp_path, kind, keys, problem):
    assert problem in refusal(write_gguf(further_checkpoint(kind), tmp_path / "model.gguf", **keys))


def test_the_bias_of_choices_says_how_files_score_experts(tmp_path):
    """As in the first files of GLM 4.7 Flash, which have no key for it."""
    path = write_gguf(further_checkpoint(Further.GLM4_MOE_LITE), tmp_path / "model.gguf")
    expected = load_checkpoint(path).config
    path.write_bytes(path.read_bytes().replace(b"expert_gating_func", b"expert_gating_cnuf"))
    assert load_checkpoint(path).config == expected
    assert expected.experts is not None
    assert expected.experts.scores is ExpertScores.SIGMOID


def test_files_from_before_the_heads_were_apart_are_refused(tmp_path):
    def add(writer):
        writer.add_tensor("blk.0.attn_kv_b.weight", np.ones((640, 64), dtype=np.float32))

    path = write_gguf(further_checkpoint(Further.DEEPSEEK_V2_LITE), tmp_path / "model.gguf", also=add)
    assert "tensor 'blk.0.attn_kv_b.weight' is of an older conversion" in refusal(path)


@pytest.mark.parametrize(("off", "expected"), [(0, 1.0), (None, 1.0), (1.4, (0.14 * math.log(8) + 1) ** 2)])
def test_scores_do_not_grow_where_the_field_is_off(tmp_path, off, expected):
    folder = copy_of(further_checkpoint(Further.DEEPSEEK_V3), tmp_path)
    rope = json.loads((folder / "config.json").read_text())["rope_parameters"] | {"mscale_all_dim": off}
    edit_json(folder / "config.json", rope_parameters=rope)
    assert load_checkpoint(folder).config.query_scale == pytest.approx(96**-0.5 * expected)


def test_the_published_configuration_of_glm_4_7_flash_is_read():
    fields = {
        **{"architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite", "attention_bias": False},
        **{"attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 10240},
        **{"max_position_embeddings": 202752, "moe_intermediate_size": 1536, "topk_method": "noaux_tc"},
        **{"norm_topk_prob": True, "num_attention_heads": 20, "n_group": 1, "topk_group": 1, "n_routed_experts": 64},
        **{"n_shared_experts": 1, "routed_scaling_factor": 1.8, "num_experts_per_tok": 4, "first_k_dense_replace": 1},
        **{"num_hidden_layers": 47, "num_key_value_heads": 20, "num_nextn_predict_layers": 1, "q_lora_rank": 768},
        **{"partial_rotary_factor": 1.0, "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 1000000},
        **{"tie_word_embeddings": False, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64},
        **{"v_head_dim": 256, "vocab_size": 154880, "pad_token_id": 154820},
    }
    _, config = read_architecture(JsonFields(fields, "config.json"))
    assert config.latent is not None
    assert (config.latent.width, config.latent.query_dim, config.query_scale) == (576, 256, 1 / 16)
    assert 29e9 < count_parameters(config) < 31e9
    assert 3e9 < count_active_parameters(config) < 4e9


def test_the_published_configuration_of_deepseek_v3_is_read():
    scaling = {
        **{"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "yarn"},
        "original_max_position_embeddings": 4096,
    }
    fields = {
        **{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": False},
        **{"aux_loss_alpha": 0.001, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "seq_aux": True},
        **{"hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840},
        **{"moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "topk_group": 4},
        **{"n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8},
        **{"num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536},
        **{"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6, "rope_scaling": scaling},
        **{"rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
        **{"v_head_dim": 128, "vocab_size": 129280, "tie_word_embeddings": False},
    }
    _, config = read_architecture(JsonFields(fields, "config.json"))
    assert 670e9 < count_parameters(config) < 672e9
    assert 35e9 < count_active_parameters(config) < 38e9
    assert config.query_scale == pytest.approx(192**-0.5 * (0.1 * math.log(40) + 1) ** 2)
    assert config.ropes[0].scale == 1.0
