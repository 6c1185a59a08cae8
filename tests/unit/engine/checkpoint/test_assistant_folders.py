"""Folders of drafters that read keys and values of a Gemma 4 are read, and those of another target are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.engine.checkpoint.attached.assistant import load_assistant
from services.engine.checkpoint.attached.drafter_kind import DrafterKind, is_drafter_folder
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, ModelConfig
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.loaded_drafter import read_drafter
from tests.harness.models.assistant_folders import write_assistant
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint


def config_of(kind: Further) -> ModelConfig:
    return load_checkpoint(further_checkpoint(kind)).config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_assistant(tmp_path_factory.mktemp("of") / "drafter", Further.GEMMA4)


@pytest.mark.parametrize("kind", [Further.GEMMA4, Further.GEMMA4_SMALL, Further.GEMMA4_UNIFIED])
def test_each_layer_reads_the_last_of_its_kind_with_keys(tmp_path, kind):
    path, target = write_assistant(tmp_path / "drafter", kind), config_of(kind)
    drafter = read_drafter(path, target)
    config, features = drafter.checkpoint.config, drafter.checkpoint.config.features
    assert is_drafter_folder(path)
    assert [layer.target_layer for layer in config.layers] == [2, 2, 3]
    assert all(target.layers[layer.target_layer].kv_layer is None for layer in config.layers)
    assert [layer.window > 0 for layer in config.layers] == [True, True, False]
    assert (config.architecture, config.reads_target) == (DrafterKind.ASSISTANT, True)
    assert (features.width, config.hidden_size) == (64, 48)
    assert (config.embedding_scale, config.max_position) == (8.0, target.max_position)
    assert (drafter.boundaries, drafter.num_predictions, drafter.head_tokens) == ((target.num_layers,), 3, ())


def test_its_weights_are_queries_projections_and_a_table(folder):
    weights = dict(load_assistant(folder, config_of(Further.GEMMA4)).checkpoint.weights())
    assert {name.rpartition(".")[2] for name in weights}.isdisjoint({"k", "v", "k_norm", "feature_norm", "embedding"})
    assert weights["fc"].shape == (48, 128)
    assert weights["carried_projection"].shape == (64, 48)
    assert weights["lm_head"].shape == (512, 48)


def test_clusters_of_tokens_are_not_read(tmp_path):
    path = write_assistant(tmp_path / "drafter", Further.GEMMA4_SMALL, use_ordered_embeddings=True)
    weights = dict(load_assistant(path, config_of(Further.GEMMA4_SMALL)).checkpoint.weights())
    assert np.isfinite(weights["lm_head"]).all()


def test_it_may_say_how_many_predictions_it_is_for(tmp_path, folder):
    path = copy_of(folder, tmp_path / "drafter")
    (path / "generation_config.json").write_text(json.dumps({"num_assistant_tokens": 5}))
    assert load_assistant(path, config_of(Further.GEMMA4)).num_predictions == 5


@pytest.mark.parametrize(
    ("outer", "text", "said"),
    [
        ({"backbone_hidden_size": 65}, {}, "'backbone_hidden_size': must be the target's hidden size, 64, is 65"),
        ({}, {"vocab_size": 511}, "text_config: field 'vocab_size': must be the target's vocabulary, 512, is 511"),
        ({}, {"head_dim": 32}, "keys and values of layers with a window must be as the target's, 2 heads of 16, are 2"),
        (
            {},
            {"per_layer_config": {"2": {"head_dim": 24, "num_key_value_heads": 1}}},
            "layers without a window must be as the target's, 1 heads of 40, are 1 heads of 24",
        ),
        (
            {},
            {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 512},
            "field 'hidden_size_per_layer_input': must be 0 in a drafter, is 8",
        ),
        ({}, {"model_type": "llama"}, "text_config: field 'model_type': 'llama' is not supported"),
        ({"text_config": None}, {}, "text_config"),
    ],
)
def test_a_drafter_of_another_model_is_refused(
    tmp_path: Path, folder: Path, outer: dict[str, Any], text: dict[str, Any], said: str
) -> None:
    path = copy_of(folder, tmp_path / "drafter")
    found = json.loads((path / "config.json").read_text())
    edit_json(path / "config.json", **{"text_config": found["text_config"] | text, **outer})
    with pytest.raises(CheckpointError) as raised:
        load_assistant(path, config_of(Further.GEMMA4))
    assert said in str(raised.value)


def test_keys_that_turn_otherwise_are_refused(tmp_path, folder):
    path = copy_of(folder, tmp_path / "drafter")
    text = json.loads((path / "config.json").read_text())["text_config"]
    text["rope_parameters"]["sliding_attention"]["rope_theta"] = 5000.0
    edit_json(path / "config.json", text_config=text)
    with pytest.raises(CheckpointError, match="must be the target's for layers with a window, whose keys they turn"):
        load_assistant(path, config_of(Further.GEMMA4))


def test_a_target_of_another_architecture_is_refused(folder):
    target = load_checkpoint(random_checkpoint(Kind.LLAMA)).config
    with pytest.raises(CheckpointError, match="must be the target's hidden size, 128, is 64"):
        load_assistant(folder, target)


def test_a_layer_is_a_layer_of_its_target_or_none():
    assert Attention().stores
    assert not Attention(target_layer=1).stores
