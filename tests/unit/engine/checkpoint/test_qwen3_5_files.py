"""Qwen 3.5 in GGUF files: value heads in another order, decays as exponentials, and layers for further predictions."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf.quants import dequantize

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.further import all_with
from tests.harness.models.checkpoints import write_model
from tests.harness.models.further_checkpoints import Further, further_checkpoint, further_config
from tests.harness.models.gguf_files import write_gguf

GROUPS, HEADS, HEAD_DIM = 2, 8, 32
KINDS = {"Q8_0": "Q8_0", "Q4_0": "Q4_0", "MXFP4": "Q8_0", "BF16": "BF16", "Q4_K": "F32", "Q6_K": "F32"}
"""The type of the output matrices, whose columns are reordered, by that of the file: a block of 256 is many heads."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """A folder whose rows are whole blocks of every type."""
    return write_wide(tmp_path_factory.mktemp("wide") / "model", GROUPS)


def write_wide(folder: Path, groups: int) -> Path:
    config = further_config(Further.QWEN3_5)
    config.hidden_size = config.intermediate_size = 256
    config.linear_num_key_heads, config.linear_num_value_heads = groups, HEADS
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    write_model(folder, model, norm_offset=1.0, output_biases=True)
    return folder


def file_of(path: Path, **keys: object) -> Path:
    return write_gguf(further_checkpoint(Further.QWEN3_5), path / "model.gguf", **keys)


def whole(checkpoint: Checkpoint, name: str) -> np.ndarray:
    return to_float32(dict(checkpoint.weights())[name])


def by_group(rows: np.ndarray) -> np.ndarray:
    """Rows of value heads in the order of a folder."""
    each = rows.reshape(HEADS // GROUPS, GROUPS, -1, *rows.shape[1:])
    return each.swapaxes(0, 1).reshape(rows.shape)


@pytest.mark.parametrize("kind", all_with(KINDS, "Q8_0", "MXFP4", "Q4_K"))
def test_quantised_heads_are_reordered_without_a_loss(wide, tmp_path, kind):
    path = write_gguf(wide, tmp_path / "model.gguf", gguf.GGMLQuantizationType[kind])
    checkpoint = load_checkpoint(path)
    stored = {
        tensor.name: dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(path).tensors
        if tensor.name.startswith("blk.1.") and tensor.name.endswith("weight")
    }
    assert (checkpoint.kind("layers.1.delta_out"), checkpoint.kind("layers.1.up")) == (
        KINDS[kind],
        {"MXFP4": "Q8_0"}.get(kind, kind),
    )
    outputs = stored["blk.1.ssm_out.weight"]
    assert np.array_equal(whole(checkpoint, "layers.1.delta_out"), by_group(outputs.T).T)
    assert np.array_equal(whole(checkpoint, "layers.1.delta_z"), by_group(stored["blk.1.attn_gate.weight"]))
    assert np.array_equal(whole(checkpoint, "layers.1.delta_b"), by_group(stored["blk.1.ssm_beta.weight"]))
    fused, first = stored["blk.1.attn_qkv.weight"], 2 * GROUPS * HEAD_DIM
    expected = np.concatenate([fused[:first], by_group(fused[first:])])
    assert np.array_equal(whole(checkpoint, "layers.1.delta_qkv"), expected)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K"])
def test_the_bytes_of_reordered_columns_hold_their_values(wide, tmp_path, kind):
    path = write_gguf(wide, tmp_path / "model.gguf", gguf.GGMLQuantizationType[kind])
    checkpoint = load_checkpoint(path)
    rows, held = checkpoint.stored_rows("layers.2.delta_out", 3, 70), checkpoint.kind("layers.2.delta_out")
    values = dequantize(np.ascontiguousarray(rows), gguf.GGMLQuantizationType[held])
    assert np.array_equal(values, whole(checkpoint, "layers.2.delta_out")[3:70])
    assert len(checkpoint.weights_digest()) == 64


def test_heads_of_one_group_each_stay_as_they_are_stored(tmp_path):
    path = write_gguf(write_wide(tmp_path / "model", HEADS), tmp_path / "model.gguf", gguf.GGMLQuantizationType["Q6_K"])
    checkpoint = load_checkpoint(path)
    stored = next(one for one in gguf.GGUFReader(path).tensors if one.name == "blk.1.ssm_out.weight")
    assert checkpoint.kind("layers.1.delta_out") == "Q6_K"
    assert np.array_equal(whole(checkpoint, "layers.1.delta_out"), dequantize(stored.data, stored.tensor_type))
    assert len(checkpoint.weights_digest()) == 64


def test_layers_for_further_predictions_are_left_out(tmp_path):
    def add(writer: gguf.GGUFWriter) -> None:
        for name in ("attn_norm.weight", "nextn.eh_proj.weight", "nextn.enorm.weight"):
            writer.add_tensor(f"blk.4.{name}", np.ones((64, 64), dtype=np.float32))

    expected = load_checkpoint(file_of(tmp_path))
    path = write_gguf(
        further_checkpoint(Further.QWEN3_5), tmp_path / "more.gguf", also=add, block_count=5, nextn_predict_layers=1
    )
    found = load_checkpoint(path)
    assert found.config == expected.config
    assert found.weights_digest() == expected.weights_digest()


def test_a_decay_that_is_no_exponential_is_refused_by_its_tensor(tmp_path):
    path = file_of(tmp_path)
    reader = gguf.GGUFReader(path, "r+")
    next(tensor for tensor in reader.tensors if tensor.name == "blk.1.ssm_a").data[2] = 0.5
    reader.data.flush()
    assert load_checkpoint(path).find_not_finite() == f"{path}: tensor 'blk.1.ssm_a' holds NaN or an infinity"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"ssm__group_count": 3}, "'qwen35.ssm.time_step_rank': must be a multiple of linear_num_key_heads 3, is 4"),
        ({"ssm__group_count": 0}, "'qwen35.ssm.group_count': must be a whole number from 1 to 4096, is 0"),
        ({"ssm__time_step_rank": "all"}, "'qwen35.ssm.time_step_rank': must be a whole number"),
        ({"ssm__time_step_rank": 0}, "'qwen35.ssm.time_step_rank': must be a whole number"),
        ({"ssm__inner_size": 130}, "'qwen35.ssm.inner_size': must be a multiple of ssm.time_step_rank, 4, is 130"),
        ({"ssm__inner_size": 64}, "'qwen35.ssm.inner_size': must be a multiple of 32, is 16"),
        ({"ssm__inner_size": "wide"}, "'qwen35.ssm.inner_size': must be a whole number from 1 to 256, is 'wide'"),
        ({"ssm__state_size": 48}, "'qwen35.ssm.state_size': must be a multiple of 32, is 48"),
        ({"ssm__state_size": 512}, "'qwen35.ssm.state_size': must be a whole number from 1 to 256, is 512"),
        (
            {"ssm__state_size": 64},
            "tensor 'blk.0.ssm_conv1d.weight' has shape [256, 4]; by the file's metadata it must",
        ),
        ({"ssm__conv_kernel": 1}, "'qwen35.ssm.conv_kernel': must be a whole number from 2 to 32, is 1"),
        ({"ssm__conv_kernel": 3}, "tensor 'blk.0.ssm_conv1d.weight' has shape [256, 4]; by the file's metadata"),
        ({"full_attention_interval": 0}, "'qwen35.full_attention_interval': must be a whole number from 1"),
        ({"full_attention_interval": 2}, "tensor 'blk.1.attn_q.weight' is missing; Qwen3_5ForCausalLM needs it"),
        ({"nextn_predict_layers": 4}, "'qwen35.nextn_predict_layers': must be a whole number from 0 to 3, is 4"),
        ({"nextn_predict_layers": "one"}, "'qwen35.nextn_predict_layers': must be a whole number from 0 to 3"),
        (
            {"block_count": 2**32 - 1, "nextn_predict_layers": 2**32 - 5},
            "'qwen35.nextn_predict_layers': must be a whole number from 0 to 4095, is 4294967291",
        ),
        ({"attention__value_length": 16}, "'qwen35.attention.value_length': must be that of keys, 32, is 16"),
        ({"expert_count": 8}, "'qwen35.expert_count': only 0 or false is supported, is 8"),
    ],
)
def test_unsupported_keys_are_refused_by_name(tmp_path, keys, problem):
    path = file_of(tmp_path, **keys)
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(path)
    assert str(path) in str(refused.value)
    assert problem in str(refused.value)


def test_keys_of_states_are_refused_elsewhere(tmp_path):
    path = write_gguf(further_checkpoint(Further.SMOLLM3), tmp_path / "model.gguf", ssm__inner_size=64)
    with pytest.raises(CheckpointError, match=r"'smollm3\.ssm\.inner_size': only 0 or false is supported, is 64"):
        load_checkpoint(path)


def test_all_keys_that_the_conversion_writes_are_known(tmp_path, caplog):
    load_checkpoint(file_of(tmp_path))
    assert not caplog.records
