"""Folders with a layer for multi-token prediction, as Qwen 3.5 and GLM have it: a random one, or one that is right."""

from pathlib import Path

import torch

from tests.harness.models.checkpoints import copy_of, edit_weights
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.one_step_models import make_one_step

_LIKE = "layers.3."  # a layer that attends
_NORM_OFFSET = 0.3  # how far random norms are from 1
AROUND = {"fc": "fc", "embedding": "pre_fc_norm_embedding", "hidden": "pre_fc_norm_hidden", "norm": "norm"}
"""Names of what lies around the layer, after `mtp.`."""
AROUND_GLM = {"fc": "eh_proj", "embedding": "enorm", "hidden": "hnorm", "norm": "shared_head.norm"}
"""The same, after the name of the layer."""

Tensors = dict[str, torch.Tensor]


def write_mtp_folder(kind: Further, folder: Path) -> Path:
    """Write a random model with such a layer into a folder of that name, and return it."""
    path = copy_of(further_checkpoint(kind), folder)
    edit_weights(path, _add_layer)
    return path


def _add_layer(tensors: Tensors) -> None:
    generator, hidden = torch.Generator().manual_seed(11), len(_final_norm(tensors))
    layer, around = _names(tensors)
    offset = float(around["fc"].startswith("model."))  # the others' norms multiply by 1 + w
    like = {name: each for name, each in tensors.items() if _LIKE in name}
    for name, each in like.items():
        tensors[layer + name.partition(_LIKE)[2]] = each.flip(0).contiguous()
    tensors[around["fc"]] = torch.randn(hidden, 2 * hidden, generator=generator) * (2 * hidden) ** -0.5
    if offset:  # published folders have copies of what the layer shares with its model
        copies = {"embed_tokens": "model.embed_tokens", "shared_head.head": "lm_head"}
        tensors |= {f"{layer}{copy}.weight": tensors[f"{name}.weight"].clone() for copy, name in copies.items()}
    for part in ("embedding", "hidden", "norm"):
        tensors[around[part]] = offset + _NORM_OFFSET * torch.randn(hidden, generator=generator)


def _names(tensors: Tensors) -> tuple[str, dict[str, str]]:
    """The beginning of the names of a layer's tensors, and the names of what lies around it."""
    if any(name.endswith("e_score_correction_bias") for name in tensors):
        layer = "model.layers.4."
        return layer, {part: f"{layer}{name}.weight" for part, name in AROUND_GLM.items()}
    return "mtp.layers.0.", {part: f"mtp.{name}.weight" for part, name in AROUND.items()}


def write_one_step_model(kind: Further, folder: Path) -> Path:
    """Write a model whose next token depends on the last one only, and whose layer for multi-token prediction predicts
    it every time: it hands the embedding of its own token on. A row one place off is wrong at once.
    """
    path = write_mtp_folder(kind, folder)

    def edit(tensors: Tensors) -> None:
        make_one_step(tensors)
        (_, around), final_norm = _names(tensors), _final_norm(tensors)
        hidden = len(final_norm)
        tensors[around["fc"]] = torch.eye(hidden, 2 * hidden)
        tensors[around["embedding"]].fill_(float(around["fc"].startswith("model.")))
        tensors[around["norm"]] = final_norm.clone()

    edit_weights(path, edit)
    return path


def _final_norm(tensors: Tensors) -> torch.Tensor:
    return next(each for name, each in tensors.items() if name.endswith("model.norm.weight"))
