"""Configurations of mixtures of experts: as which they are read, and what is refused by its field."""

from pathlib import Path

import pytest

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import Experts
from services.engine.files.checkpoint_error import CheckpointError
from tests.checkpoints import copy_of, edit_json, edit_weights
from tests.further_checkpoints import Further, further_checkpoint

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
        (Further.QWEN2_MOE, Experts(count=8, per_token=3, size=40, are_normalised=False), 56),
    ],
)
def test_experts_are_read(kind, experts, shared):
    config = load_checkpoint(further_checkpoint(kind)).config
    assert config.experts == experts
    assert config.intermediate_size == shared


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
        (Further.MIXTRAL, {"num_local_experts": "8"}, "'num_local_experts': must be a whole number from 1 to 1024"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_its_field(tmp_path, kind, changes, words):
    with pytest.raises(CheckpointError) as refused:
        edited(tmp_path, kind, **changes)
    assert words in str(refused.value)


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
