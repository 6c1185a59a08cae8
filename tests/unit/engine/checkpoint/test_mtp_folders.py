"""A layer for multi-token prediction that cannot be used is left out with a warning, and never refuses its model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from services.engine.checkpoint.attached.attached_drafter import find_own_drafter
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.config import ConfigError, EngineConfig
from services.engine.loaded_model import LoadedModel
from services.target.models.memory_plan import plan_memory
from tests.harness.models.checkpoints import Kind, copy_of, edit_weights, random_checkpoint
from tests.harness.models.further_checkpoints import Further
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.mtp_folders import write_mtp_folder
from tests.harness.models.quantised_folders import WAYS, quantise
from tests.harness.servers.server import engine_config

Tensors = dict[str, torch.Tensor]
LAYER = "mtp.layers.0."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_mtp_folder(Further.QWEN3_5, tmp_path)


def warning(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = [each for each in caplog.records if "multi-token prediction is not used" in each.message]
    return record.message


def as_tensor(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: torch.ones(shape, dtype=dtype)})


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (as_tensor("mtp.fc.weight", 64, 64), "'mtp.fc.weight' has shape [64, 64]; by config.json it must be [64, 128]"),
        (as_tensor(f"{LAYER}self_attn.q_proj.weight", 2, 2), "q_proj.weight' has shape [2, 2]; by config.json it must"),
        (as_tensor(f"{LAYER}linear_attn.A_log", 4), f"tensor '{LAYER}linear_attn.A_log' has no place in the MTP layer"),
        (as_tensor("mtp.layers.1.input_layernorm.weight", 64), "input_layernorm.weight' has no place in the MTP layer"),
        (as_tensor("mtp.embed_tokens.weight", 512, 64), "tensor 'mtp.embed_tokens.weight' has no place in"),
        (as_tensor("mtp.norm.weight", 64, dtype=torch.int32), "tensor 'mtp.norm.weight' is I32; it must be"),
        (lambda tensors: tensors.pop("mtp.norm.weight"), "tensor 'mtp.norm.weight' is missing; the MTP layer of"),
    ],
)
def test_a_layer_that_does_not_fit_is_left_out(folder, caplog, edit, said):
    expected = load_checkpoint(folder).weights_digest()
    edit_weights(folder, edit)
    checkpoint = load_checkpoint(folder)
    assert find_own_drafter(checkpoint) is None
    assert said in warning(caplog)
    assert checkpoint.weights_digest() == expected, "it is no part of the model"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            as_tensor("model.layers.5.eh_proj.weight", 64, 128),
            "'model.layers.5.eh_proj.weight' has no place in the MTP",
        ),
        (as_tensor("model.layers.4.eh_proj.weight", 64, 64), "eh_proj.weight' has shape [64, 64]; by config.json it"),
        (lambda tensors: tensors.pop("model.layers.4.shared_head.norm.weight"), "shared_head.norm.weight' is missing"),
    ],
)
def test_a_layer_of_glm_that_does_not_fit_is_left_out(tmp_path, caplog, edit, said):
    folder = write_mtp_folder(Further.GLM4_MOE, tmp_path)
    edit_weights(folder, edit)
    assert find_own_drafter(load_checkpoint(folder)) is None
    assert said in warning(caplog)


def test_redundant_tensors_of_the_layer_are_left_out_alone(folder, caplog):
    edit_weights(folder, as_tensor(f"{LAYER}self_attn.rotary_emb.inv_freq", 4))
    assert find_own_drafter(load_checkpoint(folder)) is not None
    assert not caplog.records


def test_values_that_are_not_finite_leave_it_out(folder, caplog):
    edit_weights(folder, lambda tensors: tensors["mtp.fc.weight"].fill_(torch.nan))
    assert LoadedModel.load(engine_config(folder, uses_mtp=True)).drafter is None
    assert "tensor 'mtp.fc.weight' holds NaN or an infinity" in warning(caplog)


def test_memory_for_the_model_alone_leaves_it_out(folder, caplog, monkeypatch):
    def check(self: EngineConfig, model: object, weights: str, drafter: object = None) -> None:
        if drafter is not None:
            raise ConfigError("weights and KV cache must take at most 1 byte")

    monkeypatch.setattr(EngineConfig, "check_host_memory", check)
    assert LoadedModel.load(engine_config(folder, uses_mtp=True)).drafter is None
    assert "must take at most 1 byte" in warning(caplog)


def test_a_budget_for_the_model_alone_leaves_it_out(folder, caplog):
    config = engine_config(folder, uses_mtp=True)
    (both,) = plan_memory([("a", config)], 1 << 40)
    (alone,) = plan_memory([("a", engine_config(folder))], 1 << 40)
    assert both.weights > alone.weights
    assert not caplog.records
    (share,) = plan_memory([("a", config)], both.total - 1)
    assert (share.weights, share.engine.uses_mtp) == (alone.weights, False)
    assert f"memory_budget is {both.total - 1} bytes" in warning(caplog)


def test_several_layers_of_a_gguf_file_are_left_out(folder, tmp_path, caplog):
    def add(writer: object) -> None:
        writer.add_tensor("blk.5.attn_norm.weight", np.ones(64, dtype=np.float32))  # type: ignore[attr-defined]

    path = write_gguf(folder, tmp_path / "more.gguf", also=add, block_count=6, nextn_predict_layers=2)
    assert find_own_drafter(load_checkpoint(path)) is None
    assert "tensor 'blk.5.attn_norm.weight' has no place in the MTP layer" in warning(caplog)


@pytest.mark.parametrize("kind", [Kind.GEMMA2, Kind.LLAMA])
def test_families_without_such_layers_ignore_the_names(tmp_path, kind, caplog):
    folder = copy_of(random_checkpoint(kind), tmp_path)
    edit_weights(folder, as_tensor("mtp.fc.weight", 2, 2))
    assert find_own_drafter(load_checkpoint(folder)) is None
    assert not caplog.records


@pytest.mark.parametrize("way", ["gptq with zero points", "int8 by outputs", "float8 by outputs"])
def test_a_quantised_layer_has_the_values_of_a_plain_one(folder, way):
    values = quantise(folder, WAYS[way])
    weights = dict(load_checkpoint(folder).read_mtp().weights())
    expected = values["mtp.layers.0.self_attn.k_proj.weight"].float().numpy()
    assert np.array_equal(to_float32(weights["layers.0.k"]), expected)
    assert LoadedModel.load(engine_config(folder, uses_mtp=True)).drafter is not None
