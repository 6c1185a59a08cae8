"""mtp: the layer for multi-token prediction in a model's own files, read as an attached drafter.

It reads the output of the model's final norm, and after that its own normed output (DeepSeek-V3, arXiv 2412.19437,
section 2.2, but with one layer for all depths, as Qwen3-Next, Qwen 3.5 and GLM 4.5 have it).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from services.engine.checkpoint.architectures.table import fitting_names, layer_numbers
from services.engine.checkpoint.attached.drafter_fields import LONGEST_CONTEXT, limit_windows
from services.engine.checkpoint.checkpoint_source import CheckpointSource
from services.engine.checkpoint.model_config import Attention, FeatureNorm, Features, LatentAttention, ModelConfig
from services.engine.checkpoint.stored_tensors import StoredTensors


def mtp_config(model: ModelConfig) -> ModelConfig:
    """Return the configuration of an MTP layer: as its model's last with attention, with the embedding and lm_head."""
    attention = next(layer for layer in reversed(model.layers) if isinstance(layer, Attention | LatentAttention))
    return replace(
        model,
        architecture=f"the MTP layer of {model.architecture}",
        layers=limit_windows((attention,), LONGEST_CONTEXT),
        features=Features(
            count=1,
            width=model.hidden_size,
            norm=FeatureNorm.ALL,  # with the weights of the model's final norm
            fc_reads_both=True,
            norm_carried=True,
        ),
        tied_embeddings=False,
    )


def mtp_names(
    tables: Iterable[Mapping[str, str] | None],
    config: ModelConfig,
    tensors: Iterable[str],
    others: Mapping[str, str],
    *,
    model_layer: str,
    mtp_layer: str,
) -> dict[str, tuple[str, ...]]:
    """Return our names of the weights in each tensor of an MTP layer, by the one of its model's tables that fits best.

    The names of the model's layers begin with `model_layer`, those of this one with `mtp_layer`; `others` is the table
    of the tensors around it. See tensor_names.py.
    """
    own = []
    letters = "".join(letter for letter, layers in layer_numbers(config).items() if layers)
    place = re.compile(rf"{{[{letters}]}}")
    for table in filter(None, tables):
        named = {place.sub("{i}", name): place.sub("0", ours) for name, ours in table.items()}
        of_layer = {name: ours for name, ours in named.items() if name.startswith(model_layer)}
        own.append({mtp_layer + name.removeprefix(model_layer): ours for name, ours in of_layer.items()})
    return fitting_names([{**others, **each} for each in own], config, {*tensors})


def mtp_source(
    model: CheckpointSource,
    config: ModelConfig,
    tensors: StoredTensors,
    names: Mapping[str, tuple[str, ...]],
    unused: Iterable[str],
) -> CheckpointSource:
    """Return the source of an MTP layer in its model's files; `unused` are the tensors of the model."""
    return replace(
        model,
        config=config,
        tensors=tensors,
        names=names,
        folder_names={},
        folder_orders={},
        ignored=frozenset(unused),
        read_mtp=None,
    )
