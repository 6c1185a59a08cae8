"""GPT-OSS's experts in MXFP4 are held without a loss, and compute what transformers makes of them."""

import gguf
import numpy as np
import pytest
import torch
import transformers

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import find_blocks
from services.engine.decoder.native import isas
from services.engine.decoder.weight_choice import STORED
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.models.checkpoints import copy_of, edit_weights
from tests.harness.models.mxfp4_folders import Tensors, mxfp4_folders
from tests.native.harness.parity import PROMPT, native_model, relative_error

GATE_UP = "model.layers.1.mlp.experts.gate_up_proj"


def test_transformers_reads_the_same():
    packed, _ = mxfp4_folders()
    by_values = transformers.Mxfp4Config(dequantize=True)
    model = transformers.GptOssForCausalLM.from_pretrained(
        packed, dtype=torch.float32, attn_implementation="eager", quantization_config=by_values
    )
    with torch.inference_mode():
        truth = model(torch.tensor([PROMPT])).logits[0]
    assert relative_error(native_model(load_checkpoint(packed), isas()[0], "f32")(PROMPT), truth) < 1e-4


def test_experts_are_held_as_they_are_and_all_else_in_float32():
    packed, plain = mxfp4_folders()
    checkpoint = load_checkpoint(packed)
    values, blocks = dict(load_checkpoint(plain).weights()), find_blocks(checkpoint)
    experts = [name for name, each in values.items() if ".experts." in name and each.ndim == 2]
    assert blocks == dict.fromkeys(experts, "Q8_0")
    for name in experts:
        rows = checkpoint.stored_rows(name, 0, len(values[name]))
        held = gguf.dequantize(rows, gguf.GGMLQuantizationType.Q8_0)
        np.testing.assert_array_equal(held, values[name], err_msg=name)
    for name, found in checkpoint.weights():
        np.testing.assert_array_equal(found, values[name], err_msg=name)
    stored = native_model(checkpoint, isas()[0], STORED, kv="f32")(PROMPT)
    truth = native_model(load_checkpoint(plain), isas()[0], "f32")(PROMPT)
    assert 0 < relative_error(stored, truth) < 0.2  # rows are rounded to int8, by which few go to another expert


def _with_scales(tmp_path, block: torch.Tensor | None, exponent: int) -> tuple[str, np.ndarray]:
    """The kind and the values of one expert's gate, with one of its blocks replaced."""
    folder = copy_of(mxfp4_folders()[0], tmp_path)

    def edit(tensors: Tensors) -> None:
        tensors[f"{GATE_UP}_scales"][2, 0, 1] = exponent
        if block is not None:
            tensors[f"{GATE_UP}_blocks"][2, 0, 1] = block

    edit_weights(folder, edit)
    checkpoint = load_checkpoint(folder)
    return checkpoint.kind("layers.1.experts.2.gate"), dict(checkpoint.weights())["layers.1.experts.2.gate"]


@pytest.mark.parametrize(("exponent", "held"), [(104, "Q8_0"), (143, "Q8_0"), (103, "F32"), (144, "F32"), (0, "F32")])
def test_a_tensor_with_a_scale_beyond_float16_is_held_by_values(tmp_path, exponent, held):
    kind, values = _with_scales(tmp_path, torch.full((16,), 0x21, dtype=torch.uint8), exponent)
    assert kind == held
    np.testing.assert_array_equal(values[0, 32:64], np.tile(np.ldexp(np.float32([0.5, 1.0]), exponent - 127), 16))


@pytest.mark.parametrize("exponent", [0, 255])
def test_blocks_of_zeros_may_have_any_scale(tmp_path, exponent):
    kind, values = _with_scales(tmp_path, torch.full((16,), 0x80, dtype=torch.uint8), exponent)
    assert kind == "Q8_0"
    assert not values[0, 32:64].any()


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("scales", None, f"tensor '{GATE_UP}_scales' is missing; MXFP4 needs it"),
        ("scales", torch.ones(8, 192, 3).byte(), "has shape [8, 192, 3]; by MXFP4 it must be [8, 192, 2]"),
        ("scales", torch.ones(8, 192, 2), "is F32; by MXFP4 it must be U8"),
        ("blocks", torch.ones(8, 192, 2, 8).byte(), "has shape [8, 192, 2, 8]; by MXFP4 it must be [..., 16]"),
        ("blocks", torch.ones(16).byte(), "has shape [16]; by MXFP4 it must be [..., 16]"),
        ("blocks", torch.ones(8, 192, 0, 16).byte(), "has shape [8, 192, 0, 16]; by MXFP4 it must be [..., 16]"),
        ("blocks", torch.ones(8, 192, 1, 16).byte(), "_scales' has shape [8, 192, 2]; by MXFP4 it must be [8, 192, 1]"),
    ],
)
def test_a_part_that_is_wrong_is_named(tmp_path, part, value, words):
    folder = copy_of(mxfp4_folders()[0], tmp_path)
    edit_weights(folder, lambda tensors: tensors.pop(f"{GATE_UP}_{part}"))
    if value is not None:
        edit_weights(folder, lambda tensors: tensors.update({f"{GATE_UP}_{part}": value}))
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(folder)
    assert words in str(refused.value)


@pytest.mark.parametrize("ending", ["", "_bias"])
def test_experts_of_another_shape_are_named(tmp_path, ending):
    folder = copy_of(mxfp4_folders()[1], tmp_path)
    edit_weights(folder, lambda tensors: tensors.update({GATE_UP + ending: tensors[GATE_UP + ending][:7].contiguous()}))
    with pytest.raises(CheckpointError, match=rf"tensor '{GATE_UP}{ending}' has shape .* it must be \[1536"):
        load_checkpoint(folder)
