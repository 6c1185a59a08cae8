"""AttachedDrafter: a drafter of a folder, checked against its target, or the target's own MTP layer."""

import logging
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from services.engine.checkpoint.architectures.table import fitting_names, read_architecture
from services.engine.checkpoint.attached import block_fields
from services.engine.checkpoint.attached.drafter_fields import (
    DEFAULT_PREDICTIONS,
    LONGEST_CONTEXT,
    DrafterFields,
    limit_windows,
)
from services.engine.checkpoint.attached.drafter_kind import DrafterKind
from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.checkpoint_source import CheckpointSource
from services.engine.checkpoint.folder_source import RECOMPUTED, require_values
from services.engine.checkpoint.model_config import FeatureNorm, Features, ModelConfig
from services.engine.checkpoint.ordered_tensors import OrderedTensors
from services.engine.checkpoint.stored_tensors import StoredTensors
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.checkpoint.tensor_names import DFLASH_NAMES, DSPARK_NAMES, EAGLE3_NAMES, MIDLAYER_NAMES
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields
from services.engine.forced_tokens import ForcedIds

logger = logging.getLogger(__name__)

_MASK_FEATURES = "mask_hidden"
_NAMES = {
    DrafterKind.EAGLE3: (EAGLE3_NAMES, MIDLAYER_NAMES),
    DrafterKind.P_EAGLE: tuple({**each, _MASK_FEATURES: "mask_features"} for each in (EAGLE3_NAMES, MIDLAYER_NAMES)),
    DrafterKind.DFLASH: (DFLASH_NAMES,),
    DrafterKind.DSPARK: (DSPARK_NAMES,),
}
MTP = "mtp"
"""The name of a model's own layer for multi-token prediction."""
_OFFSETS, _MASK = "d2t", "t2d"
_ELSEWHERE, _OTHERWISE = "it may belong to another model,", "or be trained for other answers (with or without thinking)"
_DOUBTS_OF_EAGLE = (
    f"{_ELSEWHERE} take its features after other layers (eagle_aux_hidden_state_layer_ids), have "
    f"other norms (norm_before_residual, norm_before_fc, fc_norm, norm_output), {_OTHERWISE}"
)
_DOUBTS_OF_BLOCKS = (
    f"{_ELSEWHERE} take its features after other layers (target_layer_ids, aux_hidden_state_layer_ids), {_OTHERWISE}"
)
_DOUBTS_OF_OWN = "the model may have been trained further without it, or merged with another; --head off leaves it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedDrafter:
    """Its weights, and how it is attached to its target."""

    name: str  # for clients
    checkpoint: Checkpoint
    boundaries: tuple[int, ...]  # the target's layers after which it takes features
    head_tokens: tuple[int, ...]  # of each row of its output matrix; empty: all tokens in their order
    num_predictions: int  # of a step that it was trained for
    doubts: str  # what may be wrong with one that is hardly ever right


def load_drafter(folder: Path, target: ModelConfig) -> AttachedDrafter:
    """Read and check the configuration of a drafter for a target, and the names and shapes of its weights.

    What the folder leaves open is logged. Raises CheckpointError naming the file, field or tensor at fault.
    """
    fields = DrafterFields.read(JsonFields.from_file(folder / "config.json"))
    if "quantization_config" in fields.layers:
        raise fields.layers.error("quantization_config", "is not supported for a drafter: its weights must be floats")
    _, layers = read_architecture(fields.layers, LONGEST_CONTEXT)
    block_fields.check_files(folder)
    tensors = TensorFiles(folder)
    boundaries, is_said = fields.boundaries(target)
    features = _read_features(fields, tensors, target, len(boundaries))
    config = replace(
        layers,
        architecture=fields.kind,
        features=features,
        layers=limit_windows(fields.windows(layers.layers), layers.max_position),
        max_position=target.max_position,
        tied_embeddings=False,
    )
    _check_sizes(fields, config, target, has_midlayer=any(name.startswith("midlayer.") for name in tensors))
    if not is_said:
        logger.warning("%s: takes features after layers %s, as no field says where", folder, [*boundaries])
    if fields.is_of_speculators and fields.kind is DrafterKind.DSPARK and "sample_from_anchor" not in fields.drafter:
        assert features.block is not None
        logger.warning("%s: sample_from_anchor is taken as %s", folder, features.block.first_predicts)
    names = fitting_names(_NAMES[fields.kind], config, {*tensors})
    require_values(tensors, names)
    unused = {name for name in tensors if name in (_OFFSETS, _MASK) or _is_redundant(name)}
    checkpoint = Checkpoint(drafter_source(folder, config, tensors, names, unused))
    return AttachedDrafter(
        name=folder.resolve().name,
        checkpoint=checkpoint,
        boundaries=boundaries,
        head_tokens=_read_head_tokens(tensors, config),
        num_predictions=fields.num_predictions,
        doubts=_DOUBTS_OF_BLOCKS if fields.kind.has_context else _DOUBTS_OF_EAGLE,
    )


def find_own_drafter(target: Checkpoint) -> AttachedDrafter | None:
    """Return the layer for multi-token prediction in a model's own files; None if there is none that can be used."""
    try:
        checkpoint = target.read_mtp()
    except CheckpointError as error:
        warn_of_own_layer(error)
        return None
    if checkpoint is None:
        return None
    return AttachedDrafter(
        name=MTP,
        checkpoint=checkpoint,
        boundaries=(target.config.num_layers,),
        head_tokens=(),
        num_predictions=DEFAULT_PREDICTIONS,
        doubts=_DOUBTS_OF_OWN,
    )


def warn_of_own_layer(problem: object) -> None:
    """Log why a model's layer for multi-token prediction is left out."""
    logger.warning("the model's own layer for multi-token prediction is not used: %s", problem)


def _is_redundant(tensor: str) -> bool:
    return tensor.startswith("verifier_") or tensor.endswith(RECOMPUTED)


def _read_features(fields: DrafterFields, tensors: TensorFiles, target: ModelConfig, count: int) -> Features:
    own = fields.drafter
    features = Features(
        count=count,
        width=own.integer("target_hidden_size", target.hidden_size),
        own_embedding="embed_tokens.weight" in tensors,
        head_size=_head_size(fields, tensors),
        block=fields.block,
    )
    if fields.kind.has_context:
        return features
    norm_residual = own.flag("norm_before_residual", fields.is_of_speculators and fields.block is None)
    if "norm_before_residual" not in own:
        logger.warning("%s: norm_before_residual is taken as %s, as no field says", own.where, norm_residual)
    has_one = "input_norm.weight" in tensors or own.flag("norm_before_fc", False)
    has_each = "fc_norm.0.weight" in tensors or own.flag("fc_norm", False)
    if has_one and has_each:
        raise own.error("fc_norm", "must not be true beside norm_before_fc")
    norm = FeatureNorm.ALL if has_one else FeatureNorm.EACH if has_each else FeatureNorm.NONE
    return replace(
        features,
        norm=norm,
        norm_residual=norm_residual,
        norm_carried=own.flag("norm_output", False) and not fields.block,
    )


def _head_size(fields: DrafterFields, tensors: TensorFiles) -> int:
    if "lm_head.weight" not in tensors:
        return 0
    whole = fields.layers.integer("vocab_size")
    return fields.drafter.integer("draft_vocab_size", whole, maximum=whole)


def _check_sizes(fields: DrafterFields, config: ModelConfig, target: ModelConfig, *, has_midlayer: bool) -> None:
    """Raise CheckpointError, with both numbers, for a drafter of another target."""
    features, depth = config.features, fields.drafter.raw("num_target_layers")
    assert features is not None
    if depth is not None and depth != target.num_layers:
        raise fields.drafter.error("num_target_layers", f"must be the target's, {target.num_layers}, is {depth}")
    if features.width != target.hidden_size:
        problem = f"must be the target's hidden size, {target.hidden_size}, is {features.width}"
        raise fields.drafter.error("target_hidden_size", problem)
    if config.vocab_size != target.vocab_size:
        problem = f"must be the target's vocabulary, {target.vocab_size}, is {config.vocab_size}"
        raise fields.layers.error("vocab_size", problem)
    shares = not (features.own_embedding and features.head_size)
    if shares and config.hidden_size != target.hidden_size:
        problem = f"must be the target's, {target.hidden_size}, as the folder lacks tables of its own, "
        raise fields.layers.error("hidden_size", f"{problem}is {config.hidden_size}")
    most = 1 if has_midlayer else block_fields.MOST_LAYERS
    if config.num_layers > most:
        raise fields.layers.error("num_hidden_layers", f"must be at most {most}, is {config.num_layers}")


def drafter_source(
    folder: Path, config: ModelConfig, tensors: TensorFiles, names: dict[str, tuple[str, ...]], unused: set[str]
) -> CheckpointSource:
    """Return the source of a drafter's weights; `unused` are tensors that it does not need."""
    return CheckpointSource(
        path=folder,
        described_by="config.json",
        config=config,
        generation={},
        token_rules={},
        forced_ids=ForcedIds(),
        eos_token_ids=(),
        tensors=_flattened(tensors, config),
        names=names,
        folder_names={},
        ignored=frozenset(unused),
        norms_are_offsets=False,
    )


def _flattened(tensors: TensorFiles, config: ModelConfig) -> StoredTensors:
    """The tensors with a mask's features as a vector, which files hold with further dimensions."""
    assert config.features is not None
    size = config.features.count * config.features.width
    shape = tensors.shape(_MASK_FEATURES) if _MASK_FEATURES in tensors else ()
    is_nested = len(shape) > 1 and math.prod(shape) == size
    return OrderedTensors(tensors, {_MASK_FEATURES: np.arange(size)}) if is_nested else tensors


def _read_head_tokens(tensors: TensorFiles, config: ModelConfig) -> tuple[int, ...]:
    """The token of each row of a small output matrix: its own number plus an offset.

    Raises CheckpointError for tokens outside the vocabulary, or twice the same.
    """
    assert config.features is not None
    count = config.features.head_size
    if count in (0, config.vocab_size):
        return ()
    if _OFFSETS not in tensors or tensors.kind(_OFFSETS) not in ("I64", "I32") or tensors.shape(_OFFSETS) != (count,):
        where = tensors.path(_OFFSETS) if _OFFSETS in tensors else tensors.path("lm_head.weight")
        raise CheckpointError(f"{where}: tensor {_OFFSETS!r} must hold {count} whole numbers, as draft_vocab_size says")
    offsets = tensors.tensor(_OFFSETS).astype(np.int64)
    least, most = int(offsets.min()), int(offsets.max())
    token_ids = np.arange(count) + offsets
    is_in_range = -count < least and most < config.vocab_size and token_ids.min() >= 0
    if not is_in_range or token_ids.max() >= config.vocab_size or len(np.unique(token_ids)) < count:
        raise CheckpointError(
            f"{tensors.path(_OFFSETS)}: tensor {_OFFSETS!r} must lead to different tokens from 0 to "
            f"{config.vocab_size - 1}"
        )
    return tuple(token_ids.tolist())
