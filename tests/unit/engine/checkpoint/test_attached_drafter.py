"""AttachedDrafter: both kinds of EAGLE-3 folders are read, and those of another target are refused."""

import logging
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from services.engine.checkpoint.attached.attached_drafter import AttachedDrafter, load_drafter
from services.engine.checkpoint.attached.drafter_kind import is_drafter_folder
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, FeatureNorm, ModelConfig, QkNorm
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.drafter_folders import (
    BOUNDARIES,
    SMALL,
    Tensors,
    drafter_tensors,
    original_fields,
    speculators_fields,
    write_drafter,
)


@pytest.fixture(scope="module")
def target() -> ModelConfig:
    return load_checkpoint(random_checkpoint(Kind.LLAMA)).config


def read(folder: Path, target: ModelConfig, fields: dict[str, Any], tensors: Tensors) -> AttachedDrafter:
    return load_drafter(write_drafter(folder, fields, tensors), target)


def test_an_original_folder(tmp_path, target):
    tensors = drafter_tensors(target)
    drafter = read(tmp_path, target, original_fields(target), tensors)
    assert drafter.boundaries == tuple(BOUNDARIES)
    config, features = drafter.checkpoint.config, drafter.checkpoint.config.features
    assert (features.count, features.width, features.head_size) == (3, target.hidden_size, SMALL)
    assert (features.norm_residual, features.norm_carried, features.own_embedding) == (False, False, False)
    assert features.norm is FeatureNorm.NONE
    assert config.layers == (Attention(window=2048),)
    assert config.max_position == target.max_position
    assert drafter.num_predictions == 3
    assert drafter.head_tokens == tuple(np.flatnonzero(tensors["t2d"]).tolist())
    weights = dict(drafter.checkpoint.weights())
    assert np.array_equal(weights["layers.0.q"], tensors["midlayer.self_attn.q_proj.weight"])
    assert np.array_equal(weights["hidden_norm"], tensors["midlayer.hidden_norm.weight"])
    assert np.array_equal(weights["layers.0.mlp_norm"], tensors["midlayer.post_attention_layernorm.weight"])
    assert weights.keys().isdisjoint({"embedding", "d2t"})


def test_a_folder_of_speculators_with_every_flag(tmp_path, target):
    tensors = drafter_tensors(target, layer="layers.0", head_size=target.vocab_size)
    del tensors["d2t"], tensors["t2d"]
    ones = np.ones(target.hidden_size, np.float32)
    tensors |= {f"fc_norm.{index}.weight": index + ones for index in range(3)}
    tensors |= {f"layers.0.self_attn.{name}_norm.weight": np.ones(32, np.float32) for name in "qk"}
    tensors["embed_tokens.weight"] = np.ones((target.vocab_size, target.hidden_size), np.float32)
    tensors["verifier_lm_head.weight"] = tensors["lm_head.weight"]
    fields = speculators_fields(
        target, model_type="qwen3", draft_vocab_size=target.vocab_size, fc_norm=True, norm_output=True
    )
    drafter = read(tmp_path, target, fields, tensors)
    features = drafter.checkpoint.config.features
    assert (features.norm, features.head_size) == (FeatureNorm.EACH, target.vocab_size)
    assert (features.norm_residual, features.norm_carried, features.own_embedding) == (True, True, True)
    assert drafter.checkpoint.config.qk_norm is QkNorm.HEAD
    assert (drafter.head_tokens, drafter.num_predictions) == ((), 5)
    assert np.array_equal(dict(drafter.checkpoint.weights())["feature_norm.2"], 2 + ones)


def test_one_norm_of_all_features(tmp_path, target):
    tensors = drafter_tensors(target) | {"input_norm.weight": np.ones(3 * target.hidden_size, np.float32)}
    drafter = read(tmp_path, target, original_fields(target), tensors)
    assert drafter.checkpoint.config.features.norm is FeatureNorm.ALL


def test_tables_may_both_be_the_targets(tmp_path, target):
    tensors = drafter_tensors(target)
    del tensors["lm_head.weight"], tensors["d2t"], tensors["t2d"]
    drafter = read(tmp_path, target, original_fields(target), tensors)
    assert (drafter.checkpoint.config.features.head_size, drafter.head_tokens) == (0, ())


def test_what_no_field_says_is_logged(tmp_path, target, caplog):
    fields = original_fields(target)
    del fields["eagle_config"]
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(CheckpointError, match="is missing, and the target's 4 layers are too few"),
    ):
        read(tmp_path, target, fields, drafter_tensors(target))
    deep = original_fields(target, eagle_aux_hidden_state_layer_ids=[0, 2, 4], eagle_config=None)
    assert read(tmp_path, target, deep, drafter_tensors(target)).boundaries == (0, 2, 4)
    assert "norm_before_residual is taken as False" in caplog.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"], "draft_vocab_size": None, "eagle_config": None},
            "is no drafter of a kind that is served: EAGLE-3, P-EAGLE",
        ),
        ({"model_type": "mamba"}, "field 'model_type': 'mamba' is not supported; allowed are llama, qwen3"),
        ({"vocab_size": 511}, "must be the target's vocabulary, 512, is 511"),
        ({"hidden_size": 64}, "field 'hidden_size': must be the target's, 128"),
        ({"target_hidden_size": 256}, "field 'target_hidden_size': must be the target's hidden size, 128, is 256"),
        ({"num_hidden_layers": 2}, "must be at most 1, is 2"),
        ({"draft_vocab_size": 513}, "field 'draft_vocab_size': must be a whole number from 1 to 512"),
        ({"draft_vocab_size": 95}, "'lm_head.weight' has shape"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 5, 2]}}, "from 0 to 4"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 2]}}, "must be different numbers"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, True]}}, "from 0 to 4"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]}}, "'fc.weight' has shape"),
        ({"quantization_config": {"quant_method": "gptq"}}, "is not supported for a drafter"),
        ({"norm_before_fc": True, "fc_norm": True}, "must not be true beside norm_before_fc"),
        ({"norm_output": 3}, "field 'norm_output': must be true or false"),
        ({"intermediate_size": 81}, "mlp.*has shape"),
    ],
)
def test_fields_of_another_target_or_out_of_range_are_refused(tmp_path, target, changes, said):
    with pytest.raises(CheckpointError, match=said):
        read(tmp_path, target, original_fields(target, **changes), drafter_tensors(target))


def test_other_kinds_of_speculators_are_refused_by_name(tmp_path, target):
    fields = speculators_fields(target, speculators_model_type="medusa")
    with pytest.raises(CheckpointError, match="'medusa' is not supported; allowed are dflash, dspark, eagle3, peagle"):
        read(tmp_path, target, fields, drafter_tensors(target, layer="layers.0"))


def test_a_drafter_is_no_model(tmp_path, target):
    write_drafter(tmp_path, original_fields(target), drafter_tensors(target))
    assert is_drafter_folder(tmp_path)
    with pytest.raises(CheckpointError, match=r"config\.json: describes an attached drafter, which is given as --head"):
        load_checkpoint(tmp_path)


def test_pickles_are_refused_with_the_command_that_converts_them(tmp_path, target):
    write_drafter(tmp_path, original_fields(target), drafter_tensors(target))
    (tmp_path / "model.safetensors").unlink()
    weights = {name: torch.from_numpy(each) for name, each in drafter_tensors(target).items()}
    weights["norm.weight"] = weights["midlayer.hidden_norm.weight"]  # two names of one memory, as pickles have them
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="a pickle, which may run code") as refused:
        load_drafter(tmp_path, target)
    _, program, folder = shlex.split(str(refused.value).partition(" with: python ")[2])
    subprocess.run([sys.executable, "-c", program, folder], check=True)
    converted = load_file(tmp_path / "model.safetensors")
    assert converted.keys() == weights.keys()
    assert all(torch.equal(each, weights[name]) for name, each in converted.items())
    load_drafter(tmp_path, target)


@pytest.mark.parametrize("offset", [-1, 1 << 40, -(1 << 62), 1])
def test_tokens_outside_the_vocabulary_or_twice_are_refused(tmp_path, target, offset):
    tensors = drafter_tensors(target)
    tensors["d2t"][:] = 0
    tensors["d2t"][0] = offset
    with pytest.raises(CheckpointError, match="'d2t' must lead to different tokens from 0 to 511"):
        read(tmp_path, target, original_fields(target), tensors)


@pytest.mark.parametrize("name", ["fc.weight", "midlayer.hidden_norm.weight", "norm.weight", "d2t"])
def test_missing_tensors_are_named(tmp_path, target, name):
    tensors = drafter_tensors(target)
    del tensors[name]
    with pytest.raises(CheckpointError, match=name.removeprefix("midlayer.")):
        read(tmp_path, target, original_fields(target), tensors)


def test_weights_that_are_no_floats_are_refused(tmp_path, target):
    tensors = drafter_tensors(target)
    tensors["fc.weight"] = tensors["fc.weight"].astype(np.float64)
    with pytest.raises(CheckpointError, match=r"'fc\.weight' is F64"):
        read(tmp_path, target, original_fields(target), tensors)


def test_a_tensor_without_a_place_is_refused(tmp_path, target):
    tensors = drafter_tensors(target) | {"mask_hidden": np.zeros((1, 1, 384), np.float32)}
    with pytest.raises(CheckpointError, match="'mask_hidden' has no place in EAGLE-3"):
        read(tmp_path, target, original_fields(target), tensors)
