"""Mixtures with the gated delta rule: which fields and tensors are refused, and all forms in which files hold them."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize
from safetensors.torch import load_file

from services.engine.checkpoint.architectures.table import read_architecture
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import Attention, Experts, GatedDelta
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.files.json_fields import JsonFields
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, refusal
from tests.harness.models.further_checkpoints import DELTA_MIXTURES, Further, further_checkpoint, stack_experts
from tests.harness.models.gguf_files import write_gguf

Tensors = dict[str, torch.Tensor]
LAYER = "model.layers.1."
EXPERTS, DELTA = f"{LAYER}mlp.experts.", f"{LAYER}linear_attn."
TEXTS = (Further.QWEN3_5_MOE, Further.QWEN3_NEXT)


def folder_of(kind: Further, path: Path, edit: Callable[[Tensors], object] | None = None, **fields: object) -> Path:
    folder = copy_of(further_checkpoint(kind), path)
    if edit:
        edit_weights(folder, edit)
    edit_json(folder / "config.json", **fields)
    return folder


def whole(checkpoint: Checkpoint, name: str) -> np.ndarray:
    return to_float32(dict(checkpoint.weights())[name])


@pytest.mark.parametrize("kind", DELTA_MIXTURES)
def test_experts_and_layers_are_read(kind):
    config = load_checkpoint(further_checkpoint(kind)).config
    count, are_normalised = 5 if kind is Further.QWEN3_5_MOE_PICTURES else 8, kind is not Further.QWEN3_NEXT_ALIKE
    assert config.experts == Experts(
        count=count, per_token=3, size=40, are_normalised=are_normalised, has_shared_gate=True
    )
    assert config.intermediate_size == 56
    assert [type(layer) for layer in config.layers] == [GatedDelta, GatedDelta, GatedDelta, Attention]


@pytest.mark.parametrize("kind", DELTA_MIXTURES)
def test_experts_in_one_tensor_are_the_same_weights(tmp_path, kind):
    found = load_checkpoint(folder_of(kind, tmp_path, stack_experts))
    expected = load_checkpoint(further_checkpoint(kind))
    assert (found.config, found.weights_digest()) == (expected.config, expected.weights_digest())
    for name in ("layers.1.experts.2.gate", "layers.1.experts.2.up", "layers.3.experts.4.down"):
        rows = expected.stored_rows(name, 5, 30)
        assert np.array_equal(found.stored_rows(name, 5, 30), rows)
        assert np.array_equal(found.stored_rows(name, 7, 7), rows[:0])


@pytest.mark.parametrize("kind", [Further.QWEN3_NEXT, Further.QWEN3_NEXT_ALIKE])
def test_inputs_of_the_delta_rule_are_unpacked(kind):
    folder = further_checkpoint(kind)
    checkpoint, tensors = load_checkpoint(folder), load_file(folder / "model.safetensors")
    delta = checkpoint.config.delta
    assert delta is not None
    groups, values = delta.key_heads, delta.value_heads // delta.key_heads * 32
    packed = tensors[f"{DELTA}in_proj_qkvz.weight"].numpy().reshape(groups, -1, 64)
    *qkv, z = (part.reshape(-1, 64) for part in np.split(packed, np.cumsum([32, 32, values]), axis=1))
    assert np.array_equal(whole(checkpoint, "layers.1.delta_qkv"), np.concatenate(qkv))
    assert np.array_equal(whole(checkpoint, "layers.1.delta_z"), z)
    b, a = np.split(tensors[f"{DELTA}in_proj_ba.weight"].numpy().reshape(groups, -1, 64), 2, axis=1)
    assert np.array_equal(whole(checkpoint, "layers.1.delta_b"), b.reshape(-1, 64))
    assert np.array_equal(whole(checkpoint, "layers.1.delta_a"), a.reshape(-1, 64))


FIELDS = [
    ({"num_experts_per_tok": 9}, "'num_experts_per_tok': must be a whole number from 1 to 8, is 9"),
    ({"num_experts": 0}, "'num_experts': must be a whole number from 1 to 1024, is 0"),
    ({"num_experts": 1025}, "'num_experts': must be a whole number from 1 to 1024, is 1025"),
    ({"moe_intermediate_size": 0}, "'moe_intermediate_size': must be a whole number from 1 to"),
    ({"moe_intermediate_size": 41}, "has shape [40, 64]; by config.json it must be [41, 64]"),
    ({"shared_expert_intermediate_size": 0}, "'shared_expert_intermediate_size': must be a whole number from 1 to"),
    ({"shared_expert_intermediate_size": 57}, "has shape [56, 64]; by config.json it must be [57, 64]"),
    ({"decoder_sparse_step": 2}, "'decoder_sparse_step': only 1 is supported, is 2"),
    ({"mlp_only_layers": [0]}, "'mlp_only_layers': only null, false or 0 is supported here, is [0]"),
    ({"linear_num_value_heads": 3}, "'linear_num_value_heads': must be a multiple of linear_num_key_heads 2, is 3"),
    ({"linear_num_value_heads": 8}, "by config.json it must be ["),
    ({"layer_types": ["linear_attention"] * 4}, "'layer_types': must have full_attention at least once"),
    ({"model_type": "qwen3_moe"}, "'model_type': must be 'qwen3_"),
]


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(("fields", "problem"), FIELDS)
def test_unsupported_fields_are_refused_by_name(tmp_path, kind, fields, problem):
    assert problem in refusal(folder_of(kind, tmp_path, **fields))


def test_a_flag_that_is_none_is_refused(tmp_path):
    said = refusal(folder_of(Further.QWEN3_NEXT, tmp_path, norm_topk_prob=1))
    assert "field 'norm_topk_prob': must be true or false, is 1" in said


def _without(name: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.pop(name)


def _as(name: str, *shape: int) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: torch.ones(shape)})


def _stacked(edit: Callable[[Tensors], object]) -> Callable[[Tensors], object]:
    return lambda tensors: (stack_experts(tensors), edit(tensors))


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (_without(f"{EXPERTS}4.down_proj.weight"), f"tensor '{EXPERTS}4.down_proj.weight' is missing"),
        (_without(f"{LAYER}mlp.shared_expert_gate.weight"), "mlp.shared_expert_gate.weight' is missing"),
        (_without(f"{LAYER}mlp.gate.weight"), f"tensor '{LAYER}mlp.gate.weight' is missing"),
        (_as(f"{LAYER}mlp.shared_expert_gate.weight", 64), "has shape [64]; by config.json it must be [1, 64]"),
        (_as(f"{EXPERTS}4.up_proj.weight", 1, 40, 64), "has shape [1, 40, 64]; by config.json it must be [40, 64]"),
        (_as(f"{EXPERTS}8.up_proj.weight", 40, 64), f"tensor '{EXPERTS}8.up_proj.weight' has no place in"),
        (_as(f"{EXPERTS}gate_up_proj", 8, 80, 64), f"tensor '{EXPERTS}gate_up_proj' has no place in"),
        (_stacked(_without(f"{EXPERTS}down_proj")), f"tensor '{EXPERTS}down_proj' is missing"),
        (
            _stacked(_as(f"{EXPERTS}gate_up_proj", 8, 64, 80)),
            f"'{EXPERTS}gate_up_proj' has shape [512, 80]; by config.json it must be [640, 64]",
        ),
        (_stacked(_as(f"{EXPERTS}down_proj", 7, 64, 40)), "has shape [448, 40]; by config.json it must be [512, 40]"),
        (_stacked(_as(f"{EXPERTS}0.up_proj.weight", 40, 64)), f"'{EXPERTS}0.up_proj.weight' has no place in"),
        (_without(f"{DELTA}A_log"), f"tensor '{DELTA}A_log' is missing"),
    ],
)
def test_missing_and_misshapen_tensors_are_refused_by_name(tmp_path, kind, edit, problem):
    assert problem in refusal(folder_of(kind, tmp_path, edit))


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (_without(f"{DELTA}in_proj_qkvz.weight"), f"tensor '{DELTA}in_proj_qkvz.weight' is missing"),
        (_as(f"{DELTA}in_proj_qkvz.weight", 383, 64), "has shape [383, 64]; by config.json it must be [384, 64]"),
        (_as(f"{DELTA}in_proj_qkvz.weight"), "has shape []; by config.json it must be [384, 64]"),
        (_as(f"{DELTA}in_proj_ba.weight", 4, 64), "has shape [4, 64]; by config.json it must be [8, 64]"),
        (_as(f"{DELTA}in_proj_z.weight", 128, 64), f"tensor '{DELTA}in_proj_z.weight' has no place in"),
    ],
)
def test_packed_inputs_that_do_not_fit_are_refused_by_name(tmp_path, edit, problem):
    assert problem in refusal(folder_of(Further.QWEN3_NEXT, tmp_path, edit))


def test_layers_for_further_predictions_are_left_out(tmp_path, caplog):
    further = {f"mtp.layers.0.mlp.experts.{name}": torch.ones(8, 2, 2) for name in ("gate_up_proj", "down_proj")}
    for kind in TEXTS:
        folder = folder_of(kind, tmp_path / kind, lambda tensors: tensors.update(further), mtp_num_hidden_layers=1)
        assert load_checkpoint(folder).weights_digest() == load_checkpoint(further_checkpoint(kind)).weights_digest()
    assert not caplog.records


def test_the_published_configuration_of_qwen3_next_is_read(caplog):
    """The one of Qwen/Qwen3-Next-80B-A3B-Instruct."""
    fields = {
        **{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "attention_bias": False},
        **{"attention_dropout": 0.0, "decoder_sparse_step": 1, "full_attention_interval": 4, "head_dim": 256},
        **{"hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4},
        **{"linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32},
        **{"linear_value_head_dim": 128, "max_position_embeddings": 262144, "mlp_only_layers": []},
        **{"moe_intermediate_size": 512, "norm_topk_prob": True, "num_attention_heads": 16, "num_experts": 512},
        **{"num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "rms_norm_eps": 1e-06},
        **{"partial_rotary_factor": 0.25, "rope_scaling": None, "rope_theta": 10000000},
        **{"shared_expert_intermediate_size": 512, "tie_word_embeddings": False, "use_sliding_window": False},
        "vocab_size": 151936,
    }
    _, config = read_architecture(JsonFields(fields, "config.json"))
    assert config.experts == Experts(count=512, per_token=10, size=512, are_normalised=True, has_shared_gate=True)
    assert config.intermediate_size == 512
    assert sum(isinstance(layer, GatedDelta) for layer in config.layers) == 36
    assert config.delta == GatedDelta(key_heads=16, value_heads=32, key_dim=128, value_dim=128, taps=4)
    assert len(config.ropes[0].frequencies) == 32
    assert not caplog.records


# GGUF files


def test_older_conversions_of_qwen3_next_hold_the_same_weights(tmp_path, caplog):
    """They have the inputs of the delta rule packed as a folder has."""
    folder = further_checkpoint(Further.QWEN3_NEXT)
    expected = load_checkpoint(write_gguf(folder, tmp_path / "new.gguf"))
    found = load_checkpoint(write_gguf(folder, tmp_path / "old.gguf", packs_inputs=True))
    assert any(tensor.name == "blk.1.ssm_in.weight" for tensor in gguf.GGUFReader(tmp_path / "old.gguf").tensors)
    assert (found.config, found.weights_digest()) == (expected.config, expected.weights_digest())
    assert not caplog.records


@pytest.mark.parametrize(("kind", "by_turns"), [(Further.QWEN3_5_MOE, True), (Further.QWEN3_NEXT, False)])
def test_quantised_value_heads_are_in_the_order_of_a_folder(tmp_path, kind, by_turns):
    path = write_gguf(further_checkpoint(kind), tmp_path / "model.gguf", gguf.GGMLQuantizationType.Q8_0)
    stored = {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors}
    checkpoint = load_checkpoint(path)
    assert checkpoint.kind("layers.1.delta_out") == "Q8_0"
    outputs, gates = stored["blk.1.ssm_out.weight"], stored["blk.1.attn_gate.weight"]
    if by_turns:
        outputs = outputs.reshape(64, 2, 2, 32).swapaxes(1, 2).reshape(64, 128)
        gates = gates.reshape(2, 2, 32, 64).swapaxes(0, 1).reshape(128, 64)
    assert np.array_equal(whole(checkpoint, "layers.1.delta_out"), outputs)
    assert np.array_equal(whole(checkpoint, "layers.1.delta_z"), gates)


@pytest.mark.parametrize(("kind", "name"), [(Further.QWEN3_5_MOE, "qwen35moe"), (Further.QWEN3_NEXT, "qwen3next")])
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"expert_used_count": 9}, ".expert_used_count': must be a whole number from 1 to 8, is 9"),
        ({"expert_count": 0}, ".expert_count': must be a whole number from 1 to 1024, is 0"),
        ({"expert_feed_forward_length": 0}, ".expert_feed_forward_length': must be a whole number from 1"),
        ({"expert_shared_feed_forward_length": 0}, ".expert_shared_feed_forward_length': must be a whole number from"),
        ({"ssm__group_count": 3}, ".ssm.time_step_rank': must be a multiple of linear_num_key_heads 3, is 4"),
        ({"expert_gating_func": 2}, ".expert_gating_func': only 1, softmax, is supported, is 2"),
        ({"expert_weights_scale": 2.5}, ".expert_weights_scale': only 0 or false is supported, is 2.5"),
    ],
)
def test_unsupported_keys_are_refused_by_name(tmp_path, kind, name, keys, problem):
    said = refusal(write_gguf(further_checkpoint(kind), tmp_path / "model.gguf", **keys))
    assert f"'{name}{problem}" in said


def test_a_missing_tensor_of_a_file_is_named(tmp_path):
    path = write_gguf(further_checkpoint(Further.QWEN3_NEXT), tmp_path / "model.gguf", full_attention_interval=2)
    assert "tensor 'blk.1.attn_q.weight' is missing; Qwen3NextForCausalLM needs it" in refusal(path)
