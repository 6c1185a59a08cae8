"""block_fields: what config.json says of a drafter that predicts several tokens in one pass.

They are DFlash (arXiv 2602.06036), DSpark (deepseek-ai/DeepSpec) and P-EAGLE (arXiv 2602.01469).

Three programs write such folders: z-lab/dflash, most of whose fields are in `dflash_config`, deepseek-ai/DeepSpec, and
the speculators library.
"""

from dataclasses import replace
from pathlib import Path

from services.engine.checkpoint.architectures.layer_kinds import SLIDING
from services.engine.checkpoint.attached.drafter_kind import MASK_TOKENS
from services.engine.checkpoint.model_config import Attention, FeatureBlock, Layer
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields

MOST_LAYERS = 16
OWN = "dflash_config"
_MOST_ROWS = 64  # of a block
_PARALLEL = 8  # predictions of P-EAGLE, where no field says more
_MARKOV_RANK, _MOST_RANK = 256, 4096
_REFUSED = {  # fields whose other values no served drafter has, and the value that is supported
    "attention_sink_bias": False,
    "add_swa_attention_sink_bias": False,
    "is_neox_style": True,
    "use_aux_hidden_state": True,
}


def check_fields(config: JsonFields) -> None:
    """Raise CheckpointError, naming the field, for one that would change the predictions and is not carried out."""
    for name, supported in _REFUSED.items():
        fields = _holder(config, name)
        if fields.flag(name, supported) != supported:
            raise fields.error(name, f"only {str(supported).lower()} is supported")


def check_files(folder: Path) -> None:
    """Raise CheckpointError for a mask with an embedding of its own, which only pickles hold."""
    if (path := folder / "mask_embedding.pt").exists():
        raise CheckpointError(f"{path}: an embedding of the mask token is not supported")


def read_block(config: JsonFields, *, first_predicts: bool) -> FeatureBlock:
    """Read the block; `first_predicts` is what holds unless a field says it. Raises CheckpointError."""
    first_predicts = config.flag("sample_from_anchor", first_predicts)
    size = _holder(config, "block_size").integer("block_size", minimum=1 if first_predicts else 2, maximum=_MOST_ROWS)
    vocab_size = _of_layers(config).integer("vocab_size")
    mask_token = _holder(config, "mask_token_id").integer("mask_token_id", minimum=0, maximum=vocab_size - 1)
    return FeatureBlock(size=size, mask_token=mask_token, first_predicts=first_predicts)


def read_masks(config: JsonFields, num_predictions: int) -> FeatureBlock:
    """Read how P-EAGLE's masks continue the rows before them; raises CheckpointError."""
    name = next((each for each in MASK_TOKENS if each in config), MASK_TOKENS[0])
    mask_token = config.integer(name, minimum=0, maximum=_of_layers(config).integer("vocab_size") - 1)
    size = max(_PARALLEL, min(num_predictions, _MOST_ROWS))
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
    types, window = layers.raw("layer_types"), _holder(config, "swa_window_size").raw("swa_window_size")
    if _holder(config, "use_swa").flag("use_swa", False) and not _lists_windows(types):
        types = [SLIDING] * layers.integer("num_hidden_layers", maximum=MOST_LAYERS)
    changes: dict[str, object] = {"layer_types": types, "use_sliding_window": _lists_windows(types)}
    return layers.replaced(changes if window is None else changes | {"sliding_window": window})


def looking_ahead(config: JsonFields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers with those marked whose tokens attend to later ones of their block; raises CheckpointError.

    All do, except where `layer_types` gives them a window, unless a field says it of all.
    """
    if (fields := _holder(config, "is_causal")).raw("is_causal") is not None:
        with_window = without = not fields.flag("is_causal", False)
    elif (fields := _holder(config, "causal")).raw("causal") is not None:
        with_window = without = not fields.flag("causal", False)
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
    return [2 + round(index * (depth - 4) / (num_layers - 1)) for index in range(num_layers)]


def _holder(config: JsonFields, name: str) -> JsonFields:
    """The fields of the block if they have this one, else those of config.json."""
    own = config.nested(OWN)
    return own if own is not None and name in own else config


def _of_layers(config: JsonFields) -> JsonFields:
    return config.nested("transformer_layer_config") or config


def _lists_windows(types: object) -> bool:
    return isinstance(types, list) and SLIDING in types
