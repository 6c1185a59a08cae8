"""A damaged quantised folder is refused by an error that names the tensor and what is allowed."""

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights
from tests.harness.models.quantised_folders import Tensors, config_of, quantised_folder

O = "model.layers.0.self_attn.o_proj."  # noqa: E741  # [64, 64]


@pytest.fixture
def refusal(tmp_path) -> Callable[..., str]:
    """Copies a folder, changes its tensors or its quantization_config, and returns what is said of it."""

    def refuse(way: str, edit: Callable[[Tensors], object] = len, **config: Any) -> str:
        folder = copy_of(quantised_folder(way), tmp_path)
        edit_weights(folder, edit)
        edit_json(folder / "config.json", quantization_config=config_of(folder) | config)
        with pytest.raises(CheckpointError) as refused:
            load_checkpoint(folder)
        return str(refused.value)

    return refuse


@pytest.mark.parametrize(
    ("way", "part", "method"),
    [
        ("gptq", "scales", "GPTQ"),
        ("gptq", "qzeros", "GPTQ"),
        ("gptq reordered", "g_idx", "GPTQ"),
        ("awq", "scales", "AWQ"),
        ("awq", "qzeros", "AWQ"),
        ("int4 packed", "weight_scale", "compressed-tensors"),
        ("int4 packed", "weight_shape", "compressed-tensors"),
        ("int8 by outputs", "weight_scale", "compressed-tensors"),
        ("float8 in blocks", "weight_scale_inv", "float8"),
    ],
)
def test_a_part_that_is_missing(refusal, way, part, method):
    said = refusal(way, lambda tensors: tensors.pop(f"{O}{part}"))
    assert f"model.safetensors: tensor '{O}{part}' is missing; {method} needs it" in said


@pytest.mark.parametrize(
    ("way", "part", "value", "words"),
    [
        ("gptq", "scales", torch.ones(3, 64).half(), "has shape [3, 64]; by GPTQ it must be [2, 64]"),
        ("gptq", "qzeros", torch.ones(2, 9).int(), "has shape [2, 9]; by GPTQ it must be [2, 8]"),
        ("gptq", "qzeros", torch.ones(2, 8).half(), "is F16; by GPTQ it must be I32"),
        ("gptq", "qweight", torch.ones(8, 64), "is F32; by GPTQ it must be I32"),
        ("gptq", "qweight", torch.ones(64).int(), "has shape [64]; by GPTQ it must have two dimensions"),
        ("gptq", "g_idx", torch.full((64,), 2).int(), "holds 2; there are groups 0 to 1"),
        ("gptq", "g_idx", torch.full((64,), -1).int(), "holds -1; there are groups 0 to 1"),
        ("gptq", "g_idx", torch.zeros(63).int(), "has shape [63]; by GPTQ it must be [64]"),
        ("awq", "qzeros", torch.ones(2, 64).int(), "has shape [2, 64]; by AWQ it must be [2, 8]"),
        ("awq", "scales", torch.ones(2, 64).int(), "is I32; by AWQ it must be F32 or F16 or BF16"),
        (
            "int4 packed",
            "weight_scale",
            torch.ones(64, 3),
            "has shape [64, 3]; for a matrix of [64, 64] it must",
        ),
        (
            "int4 packed",
            "weight_shape",
            torch.tensor([64, 72]),
            "is [64, 72], but weight_packed has 64 rows of 8 words",
        ),
        ("int4 packed", "weight_shape", torch.tensor([-64, 64]), "is [-64, 64], but weight_packed has 64 rows"),
        ("int4 packed", "weight_shape", torch.tensor([64.0, 64.0]), "is F32; by compressed-tensors it must be I64"),
        ("int8 by outputs", "weight", torch.ones(64, 64).int(), "is I32; by compressed-tensors it must be I8 or F8"),
        (
            "float8 in blocks",
            "weight_scale_inv",
            torch.ones(3, 1),
            "has shape [3, 1]; for a matrix of [64, 64] it must",
        ),
        ("float8 in blocks", "weight", torch.ones(64, 64).to(torch.int8), "is I8; by float8 it must be F8_E4M3"),
    ],
)
def test_a_part_of_another_shape_or_type(refusal, way, part, value, words):
    said = refusal(way, lambda tensors: tensors.update({f"{O}{part}": value}))
    assert f"model.safetensors: tensor '{O}{part}' {words}" in said


def test_a_matrix_of_another_shape_than_the_configuration_s(refusal):
    def narrow(tensors: Tensors) -> None:
        for part in ("qweight", "qzeros", "scales"):
            tensors[O + part] = tensors[O + part][:, : tensors[O + part].shape[1] // 2].contiguous()

    assert f"tensor '{O}weight' has shape [32, 64]; by config.json it must be [64, 64]" in refusal("gptq", narrow)


def test_a_matrix_that_is_there_twice(refusal):
    said = refusal("gptq", lambda tensors: tensors.update({f"{O}weight": torch.ones(64, 64)}))
    assert f"tensor '{O}weight' is there beside '{O}qweight'; only one may be" in said


@pytest.mark.parametrize(
    ("way", "config", "words"),
    [
        ("gptq", {"bits": 5}, "field 'bits': must be one of 2, 3, 4, 8, is 5"),
        ("gptq", {"bits": "4"}, "field 'bits': must be a whole number"),
        ("gptq", {"group_size": -2}, "field 'group_size': must be a whole number from -1"),
        ("gptq", {"checkpoint_format": "marlin"}, "field 'checkpoint_format': 'marlin' is not supported; allowed are"),
        ("gptq", {"quant_method": "bitsandbytes"}, "field 'quant_method': 'bitsandbytes' is not supported; allowed"),
        ("gptq", {"quant_method": None}, "field 'quant_method': is missing"),
        ("awq", {"version": "gemv"}, "field 'version': 'gemv' is not supported; allowed are GEMM, gemm"),
        ("awq", {"bits": 8}, "field 'bits': must be 4, is 8"),
        ("int4 packed", {"format": "nvfp4-pack-quantized"}, "field 'format': 'nvfp4-pack-quantized' is not supported"),
        ("int4 packed", {"format": "marlin-24"}, "field 'format': 'marlin-24' is not supported; allowed are dense"),
        ("int4 packed", {"transform_config": {"config_groups": {"a": {}}}}, "field 'transform_config': only null"),
        ("int4 packed", {"sparsity_config": {"format": "sparse-24-bitmask"}}, "field 'sparsity_config': only null"),
        ("int4 packed", {"config_groups": [1]}, "field 'config_groups': must be an object"),
        ("int4 packed", {"config_groups": {}}, "for numbers of no bits"),
        ("int4 packed", {"config_groups": {"a": {"weights": {"num_bits": 9}}}}, "'num_bits': must be a whole number"),
        ("float8 in blocks", {"weight_block_size": [32]}, "field 'weight_block_size': must be two whole numbers above"),
        ("float8 in blocks", {"weight_block_size": [0, 64]}, "field 'weight_block_size': must be two whole numbers"),
        ("float8 in blocks", {"fmt": "e5m2"}, "field 'fmt': 'e5m2' is not supported; allowed are e4m3"),
    ],
)
def test_a_layout_that_is_not_known(refusal, way, config, words):
    assert words in refusal(way, **config)


def test_integers_without_a_quantisation_config_are_refused(tmp_path):
    folder = copy_of(quantised_folder("int8 by outputs"), tmp_path)
    edit_json(folder / "config.json", quantization_config=None)
    with pytest.raises(CheckpointError, match=r"_proj\.weight' is I8; it must be F32, F16, BF16, or quantised as"):
        load_checkpoint(folder)


def with_biases(folder: Path, value: float) -> Path:
    edit_weights(folder, lambda tensors: tensors.update({f"{O}bias": torch.full((64,), value)}))
    return folder


def test_a_bias_of_zeros_that_a_tool_has_added_is_left_out(tmp_path):
    load_checkpoint(with_biases(copy_of(quantised_folder("gptq"), tmp_path), 0.0))
    folder = with_biases(copy_of(quantised_folder("gptq"), tmp_path, "other"), 0.5)
    with pytest.raises(CheckpointError, match=r"o_proj\.bias' has no place in LlamaForCausalLM"):
        load_checkpoint(folder)


def test_scales_of_activations_and_the_cache_are_left_out(tmp_path):
    folder = copy_of(quantised_folder("int8 by outputs"), tmp_path)
    names = [f"{O}input_scale", "model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.v_scale"]
    edit_weights(folder, lambda tensors: tensors.update({name: torch.ones(1) for name in names}))
    load_checkpoint(folder)


def test_a_nan_scale_is_found_as_a_weight_that_is_not_finite(tmp_path):
    folder = copy_of(quantised_folder("gptq"), tmp_path)
    edit_weights(folder, lambda tensors: tensors[f"{O}scales"].fill_(float("nan")))
    checkpoint = load_checkpoint(folder)
    assert checkpoint.matrices()["layers.0.o"] == "F32"
    assert f"tensor '{O}weight' holds NaN" in str(checkpoint.find_not_finite())


def problem_of(folder: Path) -> str | None:
    """The error of a folder whose weights cannot be loaded."""
    try:
        checkpoint = load_checkpoint(folder)
        assert checkpoint.matrices()
        assert all(np.prod(values.shape) for _, values in checkpoint.weights())
    except CheckpointError as error:
        return str(error)
    return None


_VALUES = [None, -1, 0, 1, 2**63, 0.5, 1e308, "7", "", True, [], [1, 2], {}, {"a": {"b": []}}, [[[]]]]


@pytest.mark.parametrize("way", ["gptq", "int4 packed"])
def test_any_value_in_any_field_of_the_method(tmp_path, way):
    folder, num_loaded = copy_of(quantised_folder(way), tmp_path), 0
    config = config_of(folder)
    for field in config:
        for value in _VALUES:
            edit_json(folder / "config.json", quantization_config=config | {field: value})
            problem = problem_of(folder)
            num_loaded += problem is None
            assert problem is None or re.search(
                r"config\.json: quantization_config|model\.safetensors: tensor", problem
            )
    assert num_loaded > 0


@pytest.mark.parametrize("way", ["gptq reordered", "awq", "int4 packed with zero points", "float8 in blocks"])
def test_any_value_in_any_part_is_a_weight_or_refused(tmp_path, way):
    """Bits that no tool would write make other weights, and never anything else."""
    folder = copy_of(quantised_folder(way), tmp_path)
    path = folder / "model.safetensors"
    content, generator = path.read_bytes(), random.Random(way)
    (size,) = struct.unpack("<Q", content[:8])
    for _ in range(12):
        changed = bytearray(content)
        for _ in range(500):
            changed[generator.randrange(8 + size, len(content))] = generator.randrange(256)
        path.write_bytes(changed)
        problem = problem_of(folder)
        assert problem is None or "model.safetensors: tensor" in problem
