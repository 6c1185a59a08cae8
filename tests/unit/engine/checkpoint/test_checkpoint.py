"""A checkpoint folder loads as the model that transformers would see in it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.checkpoints import (
    VOCAB_SIZE,
    Kind,
    add_token,
    copy_of,
    edit_json,
    edit_weights,
    random_checkpoint,
)

Q_PROJ = "model.layers.2.self_attn.q_proj.weight"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A Llama checkpoint in one file, to be changed."""
    return copy_of(random_checkpoint(Kind.LLAMA), tmp_path)


def test_weights_are_those_of_the_file():
    folder = random_checkpoint(Kind.LLAMA)
    expected = load_file(folder / "model.safetensors")
    weights = dict(load_checkpoint(folder).weights())
    assert len(weights) == len(expected)
    assert np.array_equal(weights["layers.2.q"], expected[Q_PROJ].numpy())
    assert np.array_equal(weights["lm_head"], expected["lm_head.weight"].numpy())


def test_fused_tensors_come_as_their_parts():
    folder = random_checkpoint(Kind.PHI3)
    stored, weights = load_file(folder / "model.safetensors"), dict(load_checkpoint(folder).weights())
    qkv, gate_up = (
        stored[f"model.layers.2.{name}.weight"].numpy() for name in ("self_attn.qkv_proj", "mlp.gate_up_proj")
    )
    assert [len(weights[f"layers.2.{name}"]) for name in ("q", "k", "v", "gate", "up")] == [128, 64, 64, 192, 192]
    assert np.array_equal(np.concatenate([weights[f"layers.2.{name}"] for name in ("q", "k", "v")]), qkv)
    assert np.array_equal(np.concatenate([weights[f"layers.2.{name}"] for name in ("gate", "up")]), gate_up)


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.PHI3])
def test_weights_are_not_copied(kind):
    weights = dict(load_checkpoint(random_checkpoint(kind)).weights())
    assert all(not values.flags.owndata and not values.flags.writeable for values in weights.values())


def test_bfloat16_weights_come_as_their_bits():
    folder = random_checkpoint(Kind.LLAMA, torch.bfloat16)
    expected = load_file(folder / "model.safetensors")[Q_PROJ]
    values = dict(load_checkpoint(folder).weights())["layers.2.q"]
    assert values.dtype == np.uint16
    assert np.array_equal(values, expected.view(torch.uint16).numpy())


@pytest.mark.parametrize(
    ("kind", "name", "stored_name"),
    [
        (Kind.GEMMA2, "layers.1.post_mlp_norm", "model.layers.1.post_feedforward_layernorm.weight"),
        (Kind.GEMMA3, "layers.1.q_norm", "model.layers.1.self_attn.q_norm.weight"),
        (Kind.GEMMA3, "final_norm", "model.norm.weight"),
    ],
)
def test_gemma_norms_have_their_1_added_in_float32(kind, name, stored_name):
    folder = random_checkpoint(kind, torch.bfloat16)
    stored = load_file(folder / "model.safetensors")[stored_name]
    values = dict(load_checkpoint(folder).weights())[name]
    assert values.dtype == np.float32
    assert np.array_equal(values, (1.0 + stored.float()).numpy())


def test_sharding_changes_neither_weights_nor_digest():
    single = load_checkpoint(random_checkpoint(Kind.LLAMA))
    sharded = load_checkpoint(random_checkpoint(Kind.LLAMA, sharded=True))
    assert len({*random_checkpoint(Kind.LLAMA, sharded=True).glob("model-*.safetensors")}) > 1
    of_single, of_sharded = dict(single.weights()), dict(sharded.weights())
    assert of_single.keys() == of_sharded.keys()
    assert all(np.array_equal(of_single[name], of_sharded[name]) for name in of_single)
    assert single.weights_digest() == sharded.weights_digest()


def test_digest_sees_one_changed_weight_and_one_changed_setting(folder):
    before = load_checkpoint(folder).weights_digest()
    edit_json(folder / "config.json", rms_norm_eps=2e-6)
    with_eps = load_checkpoint(folder).weights_digest()
    edit_weights(folder, lambda tensors: tensors[Q_PROJ][3, 5].add_(1.0))
    assert len({before, with_eps, load_checkpoint(folder).weights_digest()}) == 3


def test_a_tied_checkpoint_may_repeat_its_embedding_as_head(tmp_path):
    folder = copy_of(random_checkpoint(Kind.QWEN3), tmp_path)
    edit_weights(
        folder, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].clone()})
    )
    checkpoint = load_checkpoint(folder)
    assert checkpoint.config.tied_embeddings
    assert "lm_head" not in dict(checkpoint.weights())


def test_a_head_that_differs_from_the_embedding_is_used(tmp_path):
    folder = copy_of(random_checkpoint(Kind.QWEN3), tmp_path)
    edit_weights(folder, lambda tensors: tensors.update({"lm_head.weight": -tensors["model.embed_tokens.weight"]}))
    checkpoint = load_checkpoint(folder)
    assert not checkpoint.config.tied_embeddings
    assert "lm_head" in dict(checkpoint.weights())


def test_generation_defaults(folder):
    path = folder / "generation_config.json"
    path.write_text(
        json.dumps({"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 50, "eos_token_id": [3, 1]})
    )
    checkpoint = load_checkpoint(folder)
    assert checkpoint.generation == {"temperature": 0.6, "top_p": 0.9, "top_k": 50}
    assert checkpoint.eos_token_ids == (1, 3)


def test_each_file_may_name_ends_of_its_own(folder):
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 5]}))
    assert load_checkpoint(folder).eos_token_ids == (1, 3, 5)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": None}))
    assert load_checkpoint(folder).eos_token_ids == (1,)


def test_a_checkpoint_that_does_not_sample_is_greedy(folder):
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": False, "temperature": 0.6}))
    assert load_checkpoint(folder).generation == {"temperature": 0.0}


def test_without_generation_config_nothing_is_recommended(folder):
    (folder / "generation_config.json").unlink()
    checkpoint = load_checkpoint(folder)
    assert checkpoint.generation == {}
    assert checkpoint.eos_token_ids == (1,)


def test_an_added_token_may_lie_beyond_the_vocabulary(folder):
    """As that of images in Gemma 3, whose sizes share a tokenizer: those that read text alone have no row for it."""
    add_token(folder, "<image>")
    checkpoint, tokenizer = load_checkpoint(folder), Tokenizer.from_folder(folder)
    assert tokenizer.vocab_size == VOCAB_SIZE + 1
    checkpoint.check_vocabulary(tokenizer)
    path = folder / "tokenizer.json"
    description = json.loads(path.read_text())
    description["model"]["vocab"]["extra"] = VOCAB_SIZE
    path.write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match=f"'extra' has id {VOCAB_SIZE}; .* to {VOCAB_SIZE - 1}"):
        checkpoint.check_vocabulary(Tokenizer.from_folder(folder))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bool, torch.int16, torch.float8_e5m2])
def test_buffers_that_nothing_needs_may_have_any_type(folder, dtype):
    buffers = {
        f"model.layers.0.self_attn.rotary_emb.{name}": torch.ones(4).to(dtype) for name in ("inv_freq", "cos_cached")
    }
    before = load_checkpoint(folder).identity()
    edit_weights(folder, lambda tensors: tensors.update(buffers))
    assert load_checkpoint(folder).identity() == before
