"""PEFT's folders: which weights they change, and what is refused by name."""

import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.lora.peft_folder import PeftFolder, Update
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.lora_folders import OF_QWEN3_5, PREFIX, write_adapter

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def base() -> Path:
    return random_checkpoint(Kind.LLAMA)


def test_an_adapter_changes_the_named_weights_at_its_scale(base: Path, tmp_path: Path) -> None:
    folder = PeftFolder(write_adapter(tmp_path, base, seed=1, rank=4, modules=["q_proj", "down_proj"], lora_alpha=6))
    checkpoint = load_checkpoint(base)
    updates = dict(folder.updates(checkpoint))
    shapes = weight_shapes(checkpoint.config)
    assert folder.scale == 1.5
    assert {*updates} == {f"layers.{layer}.{name}" for layer in range(4) for name in ("q", "down")}
    for name, (down, up) in updates.items():
        assert (*up.shape, *down.shape) == (shapes[name][0], 4, 4, shapes[name][1])
    stored = load_file(tmp_path / WEIGHTS)[f"{PREFIX}model.layers.2.self_attn.q_proj.lora_B.weight"]
    assert (updates["layers.2.q"][1] == stored.numpy()).all()


def test_rank_stabilised_ones_are_scaled_by_the_root_of_the_rank(base: Path, tmp_path: Path) -> None:
    folder = PeftFolder(write_adapter(tmp_path, base, seed=1, rank=8, lora_alpha=6, use_rslora=True))
    assert folder.scale == 6 / math.sqrt(8)


def test_the_digest_covers_numbers_and_configuration(base: Path, tmp_path: Path) -> None:
    digests = {
        PeftFolder(write_adapter(tmp_path / str(index), base, **fields)).digest()
        for index, fields in enumerate([{"seed": 1}, {"seed": 1}, {"seed": 2}, {"seed": 1, "lora_alpha": 5}])
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("peft_type", "LOHA", "'LOHA' is not supported; allowed are LORA"),
        ("bias", "all", "'all' is not supported; allowed are none"),
        ("r", 0, "must be a whole number from 1 to 1024, is 0"),
        ("lora_alpha", None, "is missing"),
        ("use_dora", True, "is supported, is True"),
        ("modules_to_save", ["lm_head"], "is supported, is ['lm_head']"),
        ("rank_pattern", {"q_proj": 4}, "is supported, is {'q_proj': 4}"),
        ("alpha_pattern", {"q_proj": 4}, "is supported, is {'q_proj': 4}"),
        ("lora_bias", True, "is supported, is True"),
        ("fan_in_fan_out", True, "is supported, is True"),
        ("trainable_token_indices", [3], "is supported, is [3]"),
        ("something_new", 1, "is supported, is 1"),
        ("init_lora_weights", "pissa", "'pissa' changes the model's own weights"),
    ],
)
def test_a_configuration_that_asks_for_more_is_refused(
    base: Path, tmp_path: Path, field: str, value: Any, problem: str
) -> None:
    write_adapter(tmp_path, base, seed=1, **{field: value})
    with pytest.raises(CheckpointError, match=f"field '{field}': .*{re.escape(problem)}"):
        PeftFolder(tmp_path)


def test_fields_that_do_not_concern_the_weights_are_ignored(base: Path, tmp_path: Path) -> None:
    others = {"lora_dropout": 0.1, "task_type": "CAUSAL_LM", "use_dora": False, "modules_to_save": None}
    write_adapter(tmp_path, base, seed=1, **others, init_lora_weights="gaussian", rank_pattern={})
    assert PeftFolder(tmp_path).scale == 2


def renamed(tmp_path: Path, changes: dict[str, torch.Tensor | None]) -> None:
    """Put tensors into an adapter, or take some out."""
    tensors = load_file(tmp_path / WEIGHTS)
    for name, tensor in changes.items():
        tensors.pop(name, None)
        if tensor is not None:
            tensors[name] = tensor
    save_file(tensors, tmp_path / WEIGHTS)


def pair(module: str, outputs: int, inputs: int) -> dict[str, torch.Tensor | None]:
    shapes = {"A": (8, inputs), "B": (outputs, 8)}
    return {f"{PREFIX}{module}.lora_{part}.weight": torch.zeros(shape) for part, shape in shapes.items()}


Q = "model.layers.0.self_attn.q_proj"
REFUSED: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "the head": (pair("lm_head", 512, 128), "module 'lm_head' cannot be changed by an adapter"),
    "the embedding": (
        {f"{PREFIX}model.embed_tokens.lora_embedding_A": torch.zeros(8, 512)},
        "embed_tokens.lora_embedding_A' is not supported",
    ),
    "DoRA's magnitudes": ({f"{PREFIX}{Q}.lora_magnitude_vector": torch.zeros(128)}, "is not supported"),
    "a norm": (pair("model.norm", 128, 1), "module 'model.norm' cannot be changed"),
    "a layer too many": (pair("model.layers.9.self_attn.q_proj", 128, 128), "is none of"),
    "no B": ({f"{PREFIX}{Q}.lora_B.weight": None}, f"tensor '{PREFIX}{Q}.lora_B.weight' is missing"),
    "another rank": ({f"{PREFIX}{Q}.lora_A.weight": torch.zeros(4, 128)}, "has shape [4, 128]; by adapter_config.json"),
    "other outputs": ({f"{PREFIX}{Q}.lora_B.weight": torch.zeros(64, 8)}, "it must be [128, 8]"),
    "integers": ({f"{PREFIX}{Q}.lora_B.weight": torch.zeros(128, 8, dtype=torch.int32)}, "is I32; it must be F32"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_tensors_that_change_no_known_weight_are_refused(base: Path, tmp_path: Path, why: str) -> None:
    changes, problem = REFUSED[why]
    renamed(write_adapter(tmp_path, base, seed=1), changes)
    with pytest.raises(CheckpointError, match=re.escape(problem)):
        dict(PeftFolder(tmp_path).updates(load_checkpoint(base)))


@pytest.mark.parametrize("module", ["block_sparse_moe.experts.0.w1", "block_sparse_moe.gate"])
def test_experts_and_their_router_are_refused_by_name(tmp_path: Path, module: str) -> None:
    base = further_checkpoint(Further.MIXTRAL)
    name = f"model.layers.0.{module}"
    adapter = write_adapter(tmp_path, base, seed=1, modules=[module.rpartition(".")[2]])
    with pytest.raises(CheckpointError, match=re.escape(f"module '{name}' cannot be changed by an adapter")):
        dict(PeftFolder(adapter).updates(load_checkpoint(base)))


def _moved(adapter: Path, path: Path, before: str, after: str) -> Path:
    """The same adapter for modules of other names."""
    shutil.copytree(adapter, path)
    tensors = load_file(adapter / WEIGHTS)
    save_file({name.replace(before, after): tensor for name, tensor in tensors.items()}, path / WEIGHTS)
    return path


def _updates(adapter: Path, base: Path) -> dict[str, Update]:
    return dict(PeftFolder(adapter).updates(load_checkpoint(base)))


def test_queries_and_their_gates_are_changed_in_our_order(tmp_path: Path) -> None:
    base = further_checkpoint(Further.QWEN3_5)
    adapter = write_adapter(tmp_path / "a", base, seed=1, modules=OF_QWEN3_5)
    updates = _updates(adapter, base)
    of_layer = {"delta_qkv", "delta_z", "delta_b", "delta_a", "delta_out", "gate", "up", "down"}
    assert {name.removeprefix("layers.0.") for name in updates if name.startswith("layers.0.")} == of_layer
    stored = load_file(adapter / WEIGHTS)[f"{PREFIX}model.layers.3.self_attn.q_proj.lora_B.weight"].numpy()
    by_head = stored.reshape(4, 2, 32, 8)
    assert (updates["layers.3.q"][1] == by_head[:, 0].reshape(128, 8)).all()
    assert (updates["layers.3.q_gate"][1] == by_head[:, 1].reshape(128, 8)).all()


@pytest.mark.parametrize(
    ("kind", "modules"), [(Further.QWEN3_5_PICTURES, ["q_proj", "down_proj"]), (Further.GEMMA3_PICTURES, ["down_proj"])]
)
def test_an_adapter_of_the_text_class_fits_a_multimodal_folder(
    tmp_path: Path, kind: Further, modules: list[str]
) -> None:
    base = further_checkpoint(kind)
    adapter = write_adapter(tmp_path / "a", base, seed=1, modules=modules)
    name = next(name for name in load_file(adapter / WEIGHTS) if "layers.0.mlp" in name)
    before = name.removeprefix(PREFIX).partition("layers.")[0]
    assert "language_model" in before
    of_text = _moved(adapter, tmp_path / "b", before, "model.")
    assert_same(_updates(of_text, base), _updates(adapter, base))


def test_an_adapter_of_either_class_fits_a_gguf_file(tmp_path: Path) -> None:
    base = further_checkpoint(Further.QWEN3_5_PICTURES)
    adapter, file = write_adapter(tmp_path / "a", base, seed=1), write_gguf(base, tmp_path / "model.gguf")
    of_text = _moved(adapter, tmp_path / "b", "model.language_model.", "model.")
    assert_same(_updates(adapter, file), _updates(adapter, base))
    assert_same(_updates(of_text, file), _updates(adapter, base))


def test_a_module_of_two_names_is_refused(tmp_path: Path) -> None:
    base = further_checkpoint(Further.QWEN3_5_PICTURES)
    adapter = write_adapter(tmp_path, base, seed=1, modules=["down_proj"])
    twice = "model.layers.0.mlp.down_proj"
    tensors = load_file(adapter / WEIGHTS)
    mine = {name: tensor for name, tensor in tensors.items() if "layers.0.mlp.down_proj" in name}
    renamed(adapter, {name.replace("model.language_model.", "model."): tensor for name, tensor in mine.items()})
    with pytest.raises(CheckpointError, match=rf"module 'model\.(language_model\.)?{twice[6:]}' is there twice"):
        _updates(adapter, base)


def assert_same(found: dict[str, Update], expected: dict[str, Update]) -> None:
    assert found.keys() == expected.keys()
    assert all((ours == its).all() for name in found for ours, its in zip(found[name], expected[name], strict=True))


def test_the_matrix_of_compressed_keys_is_refused_by_name(tmp_path: Path) -> None:
    base = further_checkpoint(Further.GLM4_MOE_LITE)
    adapter = write_adapter(tmp_path, base, seed=1, modules=["kv_b_proj"])
    problem = "module 'model.layers.0.self_attn.kv_b_proj' cannot be changed by an adapter"
    with pytest.raises(CheckpointError, match=re.escape(problem)):
        dict(PeftFolder(adapter).updates(load_checkpoint(base)))


@pytest.mark.parametrize("module", ["linear_attn.conv1d", "linear_attn.norm"])
def test_parts_of_the_delta_rule_that_stay_are_refused_by_name(tmp_path: Path, module: str) -> None:
    base = further_checkpoint(Further.QWEN3_5)
    name = f"model.layers.0.{module}"
    renamed(write_adapter(tmp_path, base, seed=1), pair(name, 256, 4))
    with pytest.raises(CheckpointError, match=re.escape(f"module '{name}' cannot be changed by an adapter")):
        _updates(tmp_path, base)
