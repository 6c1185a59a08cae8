"""Folders of Qwen 3.5 and Qwen3-Next with a layer for multi-token prediction: a random one, or one that is right."""

from pathlib import Path

import torch

from tests.harness.models.checkpoints import copy_of, edit_weights
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.one_step_models import make_one_step

_LIKE = "layers.3."  # a layer that attends
_NORM_OFFSET = 0.3  # how far random norms are from 1

Tensors = dict[str, torch.Tensor]


def write_mtp_folder(kind: Further, folder: Path) -> Path:
    """Write a random model with such a layer into a folder of that name, and return it."""
    path = copy_of(further_checkpoint(kind), folder)
    edit_weights(path, _add_layer)
    return path


def _add_layer(tensors: Tensors) -> None:
    generator, hidden = torch.Generator().manual_seed(11), len(_final_norm(tensors))

    def norm() -> torch.Tensor:
        return _NORM_OFFSET * torch.randn(hidden, generator=generator)

    like = {name: each for name, each in tensors.items() if _LIKE in name}
    for name, each in like.items():
        tensors[f"mtp.layers.0.{name.partition(_LIKE)[2]}"] = each.flip(0).contiguous()
    tensors["mtp.fc.weight"] = torch.randn(hidden, 2 * hidden, generator=generator) * (2 * hidden) ** -0.5
    tensors |= {f"mtp.{name}.weight": norm() for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}


def write_one_step_model(kind: Further, folder: Path) -> Path:
    """Write a model whose next token depends on the last one only, and whose layer for multi-token prediction predicts
    it every time: it hands the embedding of its own token on. A row one place off is wrong at once.
    """
    path = write_mtp_folder(kind, folder)

    def edit(tensors: Tensors) -> None:
        make_one_step(tensors)
        final_norm = _final_norm(tensors)
        hidden = len(final_norm)
        tensors["mtp.fc.weight"] = torch.eye(hidden, 2 * hidden)
        tensors["mtp.pre_fc_norm_embedding.weight"].zero_()
        tensors["mtp.norm.weight"] = final_norm.clone()

    edit_weights(path, edit)
    return path


def _final_norm(tensors: Tensors) -> torch.Tensor:
    return next(each for name, each in tensors.items() if name.endswith("model.norm.weight"))
