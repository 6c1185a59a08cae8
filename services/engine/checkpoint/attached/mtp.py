"""mtp: the layer for multi-token prediction in a model's own files, read as an attached drafter.

It reads the output of the model's final norm, and after that its own normed output (DeepSeek-V3, arXiv 2412.19437,
section 2.2, but with one layer for all depths, as Qwen3-Next and Qwen 3.5 have it).
"""

from collections.abc import Mapping
from dataclasses import replace

from services.engine.checkpoint.attached.drafter_fields import LONGEST_CONTEXT
from services.engine.checkpoint.model_config import Attention, FeatureNorm, Features, Layer, ModelConfig


def mtp_config(model: ModelConfig) -> ModelConfig:
    """Return the configuration of a model's MTP layer: one of its layers that attend, before the model's tables."""
    attention = next(layer for layer in model.layers if isinstance(layer, Attention))
    return replace(
        model,
        architecture=f"the MTP layer of {model.architecture}",
        layers=limited((attention,), LONGEST_CONTEXT),
        features=Features(
            count=1,
            width=model.hidden_size,
            norm=FeatureNorm.ALL,  # with the weights of the model's final norm
            are_joined=True,
            norm_carried=True,
        ),
        tied_embeddings=False,
    )


def limited(layers: tuple[Layer, ...], most: int) -> tuple[Layer, ...]:
    """Return a drafter's layers, each with a window of at most so many positions: texts may be longer."""
    return tuple(
        replace(layer, window=min(layer.window or most, most)) if isinstance(layer, Attention) else layer
        for layer in layers
    )


def mtp_names(names: Mapping[str, str], model_layer: str, mtp_layer: str, others: Mapping[str, str]) -> dict[str, str]:
    """Return the table of an MTP layer's tensor names, see tensor_names.py, from that of its model.

    The names of the model's layers begin with `model_layer`, those of this one with `mtp_layer`; `others` are the names
    of the tensors around it.
    """
    layer = {
        mtp_layer + name.removeprefix(model_layer): ours.replace("{i}", "0")
        for name, ours in names.items()
        if name.startswith(model_layer)
    }
    return {**others, **layer}
