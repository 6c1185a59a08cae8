"""block_fields: what config.json says of a drafter that predicts several tokens in one pass.

Such are DFlash (arXiv 2602.06036), DSpark (deepseek-ai/DeepSpec) and P-EAGLE (arXiv 2602.01469). Three programs write
their folders: z-lab/dflash, deepseek-ai/DeepSpec and the speculators library. The functions take the fields of
config.json with those of `dflash_config` beside them.
"""

from dataclasses import replace
from pathlib import Path

from services.engine.checkpoint.architectures.layer_kinds import SLIDING
from services.engine.checkpoint.attached.drafter_kind import MASK_TOKENS
from services.engine.checkpoint.config_fields import warn_of_unknown_fields
from services.engine.checkpoint.model_config import Attention, FeatureBlock, Layer
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields

MOST_LAYERS = 16
OWN = "dflash_config"
OF_BLOCKS = (
    *("attention_sink_bias", "add_swa_attention_sink_bias", "is_neox_style", "use_aux_hidden_state", "block_size"),
    *("causal", "is_causal", "mask_token_id", "sample_from_anchor", "sliding_window_non_causal", "swa_window_size"),
    *("target_layer_ids", "aux_hidden_state_layer_ids", "use_swa", "markov_rank", "markov_head_type"),
    *("enable_confidence_head", "confidence_head_with_markov", "num_anchors", "num_target_layers"),
)
"""The fields of config.json, or inside of OWN, that only drafters of blocks have."""
MASK_EMBEDDING = "mask_embedding.pt"
MASK_PROBLEM = "an embedding of the mask token of its own is not supported"
_MOST_ROWS = 64  # of a block
_PARALLEL = 8  # predictions of P-EAGLE, where no field says more
_MARKOV_RANK, _MOST_RANK = 256, 4096
_MUST_BE = {  # the only supported value of fields that would change the predictions
    "attention_sink_bias": False,
    "add_swa_attention_sink_bias": False,
    "is_neox_style": True,
    "use_aux_hidden_state": True,
}
_MUST_BE_1 = ("attention_value_scale", "output_multiplier", "input_embedding_scale")


def check_fields(config: JsonFields) -> None:
    """Raise CheckpointError, naming the field, for one that would change the predictions and is not carried out.

    Unknown fields of the block are named in a warning.
    """
    for name, supported in _MUST_BE.items():
        if config.flag(name, supported) != supported:
            raise config.error(name, f"only {str(supported).lower()} is supported")
    for name in _MUST_BE_1:
        if config.number(name, 1.0) != 1.0:
            raise config.error(name, "only 1 is supported")
    if (own := config.nested(OWN)) is not None:
        warn_of_unknown_fields(own, frozenset((*OF_BLOCKS, *_MUST_BE_1)))


def check_files(folder: Path) -> None:
    """Raise CheckpointError for a mask with an embedding of its own, which only pickles hold."""
    if (path := folder / MASK_EMBEDDING).exists():
        raise CheckpointError(f"{path}: {MASK_PROBLEM}")


def read_block(config: JsonFields, *, first_predicts: bool) -> FeatureBlock:
    """Read the block; `first_predicts` is the default of `sample_from_anchor`. Raises CheckpointError."""
    first_predicts = config.flag("sample_from_anchor", first_predicts)
    size = config.integer("block_size", minimum=1 if first_predicts else 2, maximum=_MOST_ROWS)
    vocab_size = _of_layers(config).integer("vocab_size")
    mask_token = config.integer("mask_token_id", minimum=0, maximum=vocab_size - 1)
    return FeatureBlock(size=size, mask_token=mask_token, first_predicts=first_predicts)


def read_masks(config: JsonFields, num_predictions: int) -> FeatureBlock:
    """Read how P-EAGLE's masks continue the rows before them; raises CheckpointError."""
    name = next((each for each in MASK_TOKENS if each in config), MASK_TOKENS[0])
    mask_token = config.integer(name, minimum=0, maximum=_of_layers(config).integer("vocab_size") - 1)
    size = min(num_predictions or _PARALLEL, _MOST_ROWS)
    return FeatureBlock(size=size, mask_token=mask_token, continues_rows=True, first_predicts=True)


def with_markov_head(config: JsonFields, block: FeatureBlock) -> FeatureBlock:
    """Return a block with what DSpark adds; raises CheckpointError."""
    rank = config.integer("markov_rank", _MARKOV_RANK, minimum=0, maximum=_MOST_RANK)
    if rank:
        config.choice("markov_head_type", ("vanilla",), "vanilla")
    has_confidence = config.flag("enable_confidence_head", True)
    if has_confidence and not (rank and config.flag("confidence_head_with_markov", True)):
        problem = "must be false where markov_rank is 0 or confidence_head_with_markov is false"
        raise config.error("enable_confidence_head", problem)
    return replace(block, markov_rank=rank, has_confidence=has_confidence)


def with_windows(config: JsonFields, layers: JsonFields) -> JsonFields:
    """Return the fields of the layers with the windows that those of the block give them; raises CheckpointError.

    `use_swa` gives all of them one, unless `layer_types` says which have it.
    """
    types = layers.raw("layer_types")
    if uses_windows := config.flag("use_swa", False) and not _lists_windows(types):
        types = [SLIDING] * layers.integer("num_hidden_layers", maximum=MOST_LAYERS)
    if types is not None:
        layers = layers.replaced({"layer_types": types, "use_sliding_window": _lists_windows(types)})
    if "swa_window_size" in config:
        return layers.replaced({"sliding_window": config.integer("swa_window_size")})
    if uses_windows and "sliding_window" not in layers:
        raise config.error("swa_window_size", "is missing, and so is sliding_window, beside use_swa")
    return layers


def looking_ahead(config: JsonFields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers with those marked whose tokens attend to later ones of their block; raises CheckpointError.

    All do, except where `layer_types` gives them a window, unless a field says it of all.
    """
    if causal := [name for name in ("is_causal", "causal") if name in config]:
        with_window = without = not config.flag(causal[0], False)
    else:
        is_listed = _lists_windows(_of_layers(config).raw("layer_types"))
        with_window, without = not is_listed or config.flag("sliding_window_non_causal", False), True
    return tuple(
        replace(layer, looks_ahead=with_window if layer.window else without) if isinstance(layer, Attention) else layer
        for layer in layers
    )


def default_boundaries(depth: int, num_layers: int) -> list[int]:
    """Return the boundaries of a drafter whose fields do not say them, as z-lab/dflash spreads them over its target."""
    if num_layers == 1:
        return [depth // 2 + 1]
    return [1 + round(1 + index * (depth - 4) / (num_layers - 1)) for index in range(num_layers)]


def _of_layers(config: JsonFields) -> JsonFields:
    return config.nested("transformer_layer_config") or config


def _lists_windows(types: object) -> bool:
    return isinstance(types, list) and SLIDING in types
