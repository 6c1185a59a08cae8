"""Folders whose experts are in MXFP4, as GPT-OSS is published, from a small random one."""

import functools
from pathlib import Path

import torch

from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights, scratch
from tests.harness.models.further_checkpoints import Further, further_checkpoint, write_further_checkpoint

Tensors = dict[str, torch.Tensor]
_MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_BLOCK = 32


def pack(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Round to the nearest of each block (OCP Microscaling Formats, 6.3); returns blocks, scales and what they are.

    # [experts, in, out] -> [experts, out, in / 32, 16], [experts, out, in / 32], [experts, in, out]
    """
    groups = weight.transpose(1, 2).unflatten(2, (-1, _BLOCK))  # [experts, out, groups, 32]
    exponents = groups.abs().amax(-1).log2().floor() - 2
    scaled = groups / exponents.exp2()[..., None]
    codes = (scaled.abs()[..., None] - _MAGNITUDES).abs().argmin(-1)
    values = _MAGNITUDES[codes] * scaled.sign() * exponents.exp2()[..., None]
    codes = codes + 8 * (scaled < 0)
    blocks = codes[..., ::2] + 16 * codes[..., 1::2]  # the first of two in the lower bits
    return blocks.to(torch.uint8), (exponents + 127).to(torch.uint8), values.flatten(2).transpose(1, 2)


def write_mxfp4_checkpoint(folder: Path) -> Tensors:
    """Write a whole checkpoint folder, and return the experts' values that its numbers stand for."""
    write_further_checkpoint(folder, Further.GPT_OSS)
    return quantise_experts(folder)


def quantise_experts(folder: Path) -> Tensors:
    """Put the experts of a folder into MXFP4; returns the values that these are."""
    values: Tensors = {}

    def edit(tensors: Tensors) -> None:
        for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            tensors[f"{name}_blocks"], tensors[f"{name}_scales"], values[name] = pack(tensors.pop(name))

    edit_weights(folder, edit)
    edit_json(folder / "config.json", quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": []})
    return {name: value.contiguous() for name, value in values.items()}


@functools.cache
def mxfp4_folders() -> tuple[Path, Path]:
    """Return the folder of such a checkpoint, and that of its values in float32; made once per process."""
    packed, plain = (copy_of(further_checkpoint(Further.GPT_OSS), scratch(), name) for name in ("mxfp4", "mxfp4 plain"))
    values = quantise_experts(packed)
    edit_weights(plain, lambda tensors: tensors.update(values))
    return packed, plain
