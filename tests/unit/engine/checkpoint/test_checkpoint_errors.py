"""A checkpoint that cannot be served fails to load with one error that names the problem."""

import json
from pathlib import Path

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Device
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.models.checkpoints import VOCAB_SIZE, Kind, copy_of, edit_json, edit_weights, random_checkpoint

Q_PROJ = "model.layers.2.self_attn.q_proj.weight"
_FULL, _SLIDING = "full_attention", "sliding_attention"
_LONGROPE = {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 12, "long_factor": [1.0] * 12}}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A Llama checkpoint in one file, to be damaged."""
    return copy_of(random_checkpoint(Kind.LLAMA), tmp_path)


@pytest.fixture
def sharded_folder(tmp_path) -> Path:
    return copy_of(random_checkpoint(Kind.LLAMA, sharded=True), tmp_path)


def assert_refused(folder: Path, *words: str) -> None:
    """Loading fails with one sentence that has all the words in it."""
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    for word in words:
        assert word in str(caught.value)


# The folder and its configuration


def test_missing_folder(tmp_path):
    assert_refused(tmp_path / "nowhere", "nowhere", "config.json", "no such file")


def test_config_that_is_not_json(folder):
    (folder / "config.json").write_text("{")
    assert_refused(folder, "config.json", "JSON")


def test_unknown_architecture(folder):
    edit_json(folder / "config.json", architectures=["GrokForCausalLM"])
    assert_refused(folder, "GrokForCausalLM", "LlamaForCausalLM", "Phi3ForCausalLM", "Gemma3ForCausalLM")


@pytest.mark.parametrize("names", [[], [["LlamaForCausalLM"]], "LlamaForCausalLM", ["LlamaForCausalLM"] * 2])
def test_architectures_is_a_list_of_one_name(folder, names):
    edit_json(folder / "config.json", architectures=names)
    assert_refused(folder, "'architectures'", repr(names))


@pytest.mark.parametrize("field", ["architectures", "hidden_size", "num_hidden_layers", "vocab_size"])
def test_missing_field(folder, field):
    edit_json(folder / "config.json", **{field: None})
    assert_refused(folder, "config.json", repr(field))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rope_parameters": {"rope_type": "mrope"}}, ["rope_type", "mrope", "default, dynamic, linear, llama3"]),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 0.5}}, ["rope_theta", "above 1 beside yarn", "0.5"]),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}, ["short_factor", "missing"]),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, ["low_freq_factor", "missing"]),
        ({"rope_scaling": {"type": "dynamic", "factor": 0.0}}, ["factor", "above 0", "0.0"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor", "1.0"]),
        ({"hidden_act": "relu"}, ["hidden_act", "relu", "silu"]),
        ({"hidden_act": ["silu"]}, ["hidden_act", "['silu']", "silu"]),
        ({"quantization_config": {"quant_method": "hqq"}}, ["quant_method", "'hqq'", "allowed are awq, compressed"]),
        ({"quantization_config": {"quant_method": "gptq"}}, ["quantization_config", "'bits'", "missing"]),
        ({"num_key_value_heads": 3}, ["num_key_value_heads", "divide"]),
        ({"vocab_size": "512"}, ["vocab_size", "whole number", "'512'"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers", "from 1 to"]),
        ({"num_hidden_layers": 2**31}, ["num_hidden_layers", "from 1 to 1024"]),
        ({"hidden_size": 130, "head_dim": None}, ["num_attention_heads", "must divide hidden_size 130"]),
        ({"rms_norm_eps": -1.0}, ["rms_norm_eps", "above 0"]),
        ({"rms_norm_eps": 10**400}, ["rms_norm_eps", "finite number"]),
        ({"head_dim": 33}, ["head_dim", "even"]),
        ({"tie_word_embeddings": "no"}, ["tie_word_embeddings", "true or false"]),
    ],
)
def test_unsupported_or_invalid_field(folder, changes, words):
    edit_json(folder / "config.json", **changes)
    assert_refused(folder, "config.json", *words)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (Kind.MISTRAL, {"sliding_window": 0}, ["'sliding_window'", "from 1"]),
        (Kind.MISTRAL, {"layer_types": [_SLIDING, _FULL] * 2}, ["layer_types", "only sliding_attention", "16"]),
        (Kind.PHI3, {"layer_types": [_FULL] * 4}, ["layer_types", "only sliding_attention", "16"]),
        (Kind.QWEN2, {"use_sliding_window": False}, ["layer_types", "use_sliding_window, which is false"]),
        (Kind.PHI3, {"rope_scaling": {"type": "yarn"}}, ["type", "yarn", "default, longrope, su"]),
        (Kind.PHI3, {"rope_parameters": {"partial_rotary_factor": 0.1}}, ["partial_rotary_factor", "even part", "0.1"]),
        (Kind.PHI3, {"rope_parameters": {}, "partial_rotary_factor": 1.5}, ["partial_rotary_factor", "at most 1"]),
        (Kind.PHI3_LONGROPE, {"original_max_position_embeddings": 1}, ["original_max_position", "at least 2"]),
        (
            Kind.PHI3_LONGROPE,
            {"partial_rotary_factor": 1.0, **_LONGROPE},
            ["short_factor", "16 finite numbers above 0"],
        ),
        (Kind.GEMMA2, {"use_bidirectional_attention": True}, ["use_bidirectional_attention", "only false"]),
        (Kind.GEMMA3, {"use_bidirectional_attention": True}, ["use_bidirectional_attention", "only false"]),
        (Kind.GEMMA3, {"attn_logit_softcapping": 50.0}, ["attn_logit_softcapping", "only null"]),
        (Kind.GEMMA3, {"final_logit_softcapping": 30.0}, ["final_logit_softcapping", "only null"]),
        (Kind.GEMMA3, {"query_pre_attn_scalar": 0}, ["query_pre_attn_scalar", "above 0"]),
        (Kind.GEMMA3, {"rope_parameters": {"rope_type": "default"}}, ["rope_parameters", "full_attention", "missing"]),
        (Kind.GEMMA3, {"rope_scaling": {"type": "linear"}}, ["rope_scaling", "beside rope_parameters"]),
        (Kind.GEMMA3, {"rope_parameters": None, "rope_scaling": {"type": "mrope"}}, ["rope_scaling", "type", "mrope"]),
        (Kind.OLMO2, {"head_dim": 64}, ["q_proj.weight", "[128, 128]", "[256, 128]"]),
    ],
)
def test_settings_an_architecture_does_not_support_are_refused(tmp_path, kind, changes, words):
    folder = copy_of(random_checkpoint(kind), tmp_path)
    edit_json(folder / "config.json", **changes)
    assert_refused(folder, *words)


@pytest.mark.parametrize(
    "types", [["full_attention"], ["chunked_attention"] * 4, [["full_attention"]] * 4, "full_attention"]
)
def test_bad_layer_types(tmp_path, types):
    folder = copy_of(random_checkpoint(Kind.GEMMA2), tmp_path)
    edit_json(folder / "config.json", layer_types=types)
    assert_refused(folder, "layer_types", "4 of full_attention and sliding_attention")


@pytest.mark.parametrize(
    ("field", "value"), [("temperature", -0.5), ("top_p", 0.0), ("top_k", 1.5), ("eos_token_id", VOCAB_SIZE)]
)
def test_bad_generation_config(folder, field, value):
    (folder / "generation_config.json").write_text(json.dumps({field: value}))
    assert_refused(folder, "generation_config.json", repr(field), str(value))


# The weights


def test_no_weights(folder):
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "model.safetensors", "model.safetensors.index.json")


def test_missing_tensor(folder):
    edit_weights(folder, lambda tensors: tensors.pop(Q_PROJ))
    assert_refused(folder, Q_PROJ, "missing")


def test_a_head_that_the_decoder_cannot_hold(tmp_path):
    """Only the device knows its limits: the error comes with the decoder."""
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    wide = {"head_dim": 4096, "num_attention_heads": 1, "num_key_value_heads": 1}
    edit_json(folder / "config.json", **wide)
    shapes = {"q": (4096, 128), "k": (4096, 128), "v": (4096, 128), "o": (128, 4096)}
    widened = {
        f"model.layers.{i}.self_attn.{name}_proj.weight": torch.zeros(shape)
        for i in range(4)
        for name, shape in shapes.items()
    }
    edit_weights(folder, lambda tensors: tensors.update(widened))
    checkpoint, device = load_checkpoint(folder), Device.cpu("portable", threads=1)
    with pytest.raises(CheckpointError, match=r"model: head_dim is 4096; device .* handles at most"):
        load_decoder(checkpoint, device, weights="f32", kv="f32", num_blocks=1)


def test_wrong_shape_of_a_fused_tensor(tmp_path):
    folder, name = copy_of(random_checkpoint(Kind.PHI3), tmp_path), "model.layers.1.self_attn.qkv_proj.weight"
    edit_weights(folder, lambda tensors: tensors.update({name: torch.zeros(255, 128)}))
    assert_refused(folder, name, "[255, 128]", "[256, 128]")


def test_wrong_shape(folder):
    edit_weights(folder, lambda tensors: tensors.update({Q_PROJ: torch.zeros(127, 128)}))
    assert_refused(folder, "model.safetensors", Q_PROJ, "[127, 128]", "[128, 128]")


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.o_proj.bias", "model.layers.4.self_attn.q_proj.weight"])
def test_a_tensor_that_would_be_ignored(folder, name):
    edit_weights(folder, lambda tensors: tensors.update({name: torch.zeros(128)}))
    assert_refused(folder, name, "no place in LlamaForCausalLM")


def test_unsupported_dtype(folder):
    edit_weights(folder, lambda tensors: tensors.update({Q_PROJ: tensors[Q_PROJ].to(torch.float64)}))
    assert_refused(folder, Q_PROJ, "F64", "F32, F16, BF16")


@pytest.mark.parametrize("size", [0, 7, 100, 100_000])
def test_truncated_file(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert_refused(folder, "model.safetensors", "truncated" if size else "empty")


def test_missing_shard(sharded_folder):
    shard = sorted(sharded_folder.glob("model-*.safetensors"))[1]
    shard.unlink()
    assert_refused(sharded_folder, shard.name, "no such file")


def test_truncated_shard(sharded_folder):
    shard = sorted(sharded_folder.glob("model-*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-1])
    assert_refused(sharded_folder, shard.name, "truncated")


@pytest.mark.parametrize("weight_map", [None, {}, ["model.safetensors"], {Q_PROJ: 3}, {Q_PROJ: "../model.safetensors"}])
def test_bad_index(sharded_folder, weight_map):
    (sharded_folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert_refused(sharded_folder, "model.safetensors.index.json", "weight_map")


def test_index_that_names_the_wrong_shard(sharded_folder):
    path = sharded_folder / "model.safetensors.index.json"
    names = json.loads(path.read_text())["weight_map"]
    other = next(file for file in names.values() if file != names[Q_PROJ])
    path.write_text(json.dumps({"weight_map": names | {Q_PROJ: other}}))
    assert_refused(sharded_folder, other, Q_PROJ, "missing")
