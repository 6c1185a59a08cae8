"""Configurations of mixtures of experts: how they are read, and which fields are refused."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from services.engine.checkpoint.architectures.table import read_architecture
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import Experts, attention_layers
from services.engine.checkpoint.ordered_tensors import ExpertStacks
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights
from tests.harness.models.further_checkpoints import Further, further_checkpoint

MIXTURES = (Further.OLMOE, Further.QWEN3_MOE, Further.MIXTRAL, Further.QWEN2_MOE)


def edited(tmp_path: Path, kind: Further, **changes: object) -> Checkpoint:
    folder = copy_of(further_checkpoint(kind), tmp_path)
    edit_json(folder / "config.json", **changes)
    return load_checkpoint(folder)


@pytest.mark.parametrize(
    ("kind", "experts", "shared"),
    [
        (Further.OLMOE, Experts(count=8, per_token=3, size=48, are_normalised=False), 0),
        (Further.QWEN3_MOE, Experts(count=8, per_token=3, size=64, are_normalised=True), 0),
        (Further.MIXTRAL, Experts(count=5, per_token=2, size=96, are_normalised=True), 0),
        (Further.QWEN2_MOE, Experts(count=8, per_token=3, size=40, are_normalised=False, has_shared_gate=True), 56),
        (Further.GPT_OSS, Experts(count=8, per_token=3, size=96, are_normalised=True, have_biases=True), 0),
    ],
)
def test_experts_are_read(kind, experts, shared):
    config = load_checkpoint(further_checkpoint(kind)).config
    assert config.experts == experts
    assert config.intermediate_size == shared


def test_rows_of_stacked_experts_are_those_of_each(tmp_path):
    """Gates and ups by turns, outputs by columns: also across experts, and as they are stored."""
    folder = copy_of(further_checkpoint(Further.GPT_OSS), tmp_path)
    checkpoint = load_checkpoint(folder)
    stored = load_file(folder / "model.safetensors")["model.layers.1.mlp.experts.gate_up_proj"].numpy()
    for part, first in (("gate", 0), ("up", 1)):
        rows = checkpoint.stored_rows(f"layers.1.experts.6.{part}", 5, 9).view(np.float32)
        assert np.array_equal(rows, stored[6, :, first::2].T[5:9])
    stacks = ExpertStacks(TensorFiles(folder), by_inputs=True)
    whole = stacks.rows("model.layers.1.mlp.experts.gate_up_proj", 100, 500)
    assert np.array_equal(whole, stored.swapaxes(1, 2).reshape(-1, 64)[100:500])
    digest = checkpoint.weights_digest()
    edit_weights(folder, lambda tensors: tensors["model.layers.1.mlp.experts.gate_up_proj_bias"][6].neg_())
    assert load_checkpoint(folder).weights_digest() != digest


def test_both_names_of_the_number_of_experts_are_read(tmp_path):
    """transformers 5 writes the second for Qwen 3 MoE, whose published folders have the first."""
    for given, other in (("num_experts", "num_local_experts"), ("num_local_experts", "num_experts")):
        experts = edited(tmp_path / given, Further.QWEN3_MOE, **{given: 8, other: None}).config.experts
        assert experts is not None
        assert experts.count == 8


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (Further.OLMOE, {"num_experts_per_tok": 9}, "'num_experts_per_tok': must be a whole number from 1 to 8, is 9"),
        (Further.OLMOE, {"num_experts": 0}, "'num_experts': must be a whole number from 1 to 1024, is 0"),
        (Further.OLMOE, {"num_experts": 1025}, "'num_experts': must be a whole number from 1 to 1024, is 1025"),
        (Further.OLMOE, {"norm_topk_prob": 1}, "'norm_topk_prob': must be true or false, is 1"),
        (Further.OLMOE, {"clip_qkv": 8.0}, "'clip_qkv': only null, false or 0 is supported here, is 8.0"),
        (Further.QWEN3_MOE, {"decoder_sparse_step": 2}, "'decoder_sparse_step': only 1 is supported, is 2"),
        (Further.QWEN3_MOE, {"mlp_only_layers": [0]}, "'mlp_only_layers': only null, false or 0 is supported"),
        (Further.QWEN2_MOE, {"use_sliding_window": True}, "'use_sliding_window': only null, false or 0 is supported"),
        (Further.GPT_OSS, {"swiglu_limit": 5.0}, "'swiglu_limit': only 7.0 is supported, is 5.0"),
        (Further.GPT_OSS, {"swiglu_alpha": 1.5}, "'swiglu_alpha': only 1.702 is supported, is 1.5"),
        (Further.MIXTRAL, {"num_local_experts": "8"}, "'num_local_experts': must be a whole number from 1 to 1024"),
    ],
)
def test_unsupported_mixture_fields_are_refused_by_name(tmp_path, kind, changes, words):
    with pytest.raises(CheckpointError) as refused:
        edited(tmp_path, kind, **changes)
    assert words in str(refused.value)


def test_the_published_configuration_of_gpt_oss_is_read():
    """Of openai/gpt-oss-20b, but for its list of layers."""
    fields = {
        **{"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True, "head_dim": 64},
        **{"experts_per_token": 4, "num_experts_per_tok": 4, "num_local_experts": 32, "hidden_act": "silu"},
        **{"hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8},
        **{"num_hidden_layers": 24, "initial_context_length": 4096, "max_position_embeddings": 131072},
        **{"output_router_logits": False, "rms_norm_eps": 1e-05, "rope_theta": 150000, "sliding_window": 128},
        **{"router_aux_loss_coef": 0.9, "swiglu_limit": 7.0, "tie_word_embeddings": False, "vocab_size": 201088},
        "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn"], "quant_method": "mxfp4"},
    }
    scaling = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    scaling = {"rope_scaling": scaling | {"original_max_position_embeddings": 4096}}
    _, config = read_architecture(JsonFields(fields | scaling, "config.json"))
    assert config.experts == Experts(count=32, per_token=4, size=2880, are_normalised=True, have_biases=True)
    assert config.layers == attention_layers((128, 0) * 12)
    assert config.ropes[0].scale == pytest.approx(1.3465735902799727)  # 0.1 ln 32 + 1
    assert read_architecture(JsonFields(fields, "config.json"))[1] == config


@pytest.mark.parametrize("kind", MIXTURES)
def test_a_missing_expert_is_named(tmp_path, kind):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    missing = {Further.MIXTRAL: "block_sparse_moe.experts.4.w2"}.get(kind, "mlp.experts.4.down_proj")
    name = f"model.layers.1.{missing}.weight"
    edit_weights(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=f"tensor '{name}' is missing"):
        load_checkpoint(folder)


def test_an_expert_of_another_shape_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"has shape \[48, 64\]; by config.json it must be \[47, 64\]"):
        edited(tmp_path, Further.OLMOE, intermediate_size=47)


def test_more_experts_than_the_configuration_says_are_refused(tmp_path):
    folder = copy_of(further_checkpoint(Further.OLMOE), tmp_path)
    edit_json(folder / "config.json", num_experts=7)

    def shorten_routers(tensors):
        for name in [name for name in tensors if name.endswith("mlp.gate.weight")]:
            tensors[name] = tensors[name][:7].contiguous()

    edit_weights(folder, shorten_routers)
    with pytest.raises(CheckpointError, match=r"experts\.7\.\w+_proj\.weight' has no place in OlmoeForCausalLM"):
        load_checkpoint(folder)
