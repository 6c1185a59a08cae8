"""DrafterFields: the fields of a drafter's config.json, whichever program has written it."""

from dataclasses import dataclass, replace
from typing import TypeGuard

from services.engine.checkpoint.architectures.layer_kinds import SLIDING
from services.engine.checkpoint.attached import block_fields
from services.engine.checkpoint.attached.drafter_kind import MASK_TOKENS, SPECULATORS, DrafterKind, read_kind
from services.engine.checkpoint.model_config import Attention, FeatureBlock, Layer, ModelConfig
from services.engine.files.json_fields import JsonFields, shown

LONGEST_CONTEXT = 2048
"""The most positions that a drafter reads: those before them matter little, and old drafters know no more."""

DEFAULT_PREDICTIONS = 3
"""Of a step, for a drafter that does not say how many."""
MOST_PREDICTIONS = 15
"""Of a step."""

_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}  # of a drafter's layers, by model_type
_MOST_FEATURES = 8
_BOUNDARIES = {"eagle_aux_hidden_state_layer_ids": 0, "aux_hidden_state_layer_ids": 0, "target_layer_ids": 1}
"""The fields that may say them, and how many layers more than they say are before each."""
_OF_DRAFTERS = (
    *("draft_vocab_size", "eagle_config", "target_hidden_size", *_BOUNDARIES),
    *("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "embed_requires_grad"),
    *("ttt_length", "step_loss_decay", "draft_num_hidden_layers", "target_model_name_or_path"),
    *(*MASK_TOKENS, block_fields.OWN, *block_fields.OF_BLOCKS),
)


@dataclass(frozen=True, slots=True)
class DrafterFields:
    """The fields of a folder with a drafter."""

    layers: JsonFields  # as the config.json of a model with such layers
    drafter: JsonFields  # those of config.json itself, with those of the objects in it that only drafters have
    kind: DrafterKind
    is_of_speculators: bool

    @classmethod
    def read(cls, config: JsonFields) -> "DrafterFields":
        """Tell the kinds of folders apart; raises CheckpointError for a kind that is not served."""
        kind, is_of_speculators = read_kind(config), SPECULATORS in config
        drafter = config.with_nested("eagle_config").with_nested(block_fields.OWN)
        layers = config.required("transformer_layer_config") if is_of_speculators else config
        model_type = layers.choice("model_type", _ARCHITECTURES)
        known: dict[str, object] = dict.fromkeys(_OF_DRAFTERS)
        known |= {"architectures": [_ARCHITECTURES[model_type]], "tie_word_embeddings": False}
        if kind.has_context:  # whatever its target is, its layers are those of Qwen 3
            block_fields.check_fields(drafter)
            layers = block_fields.with_windows(drafter, layers)
            if model_type != "qwen3":  # whose defaults are others
                heads = layers.integer("num_attention_heads")
                head_dim = layers.integer("hidden_size") // heads
                layers = layers.completed({"head_dim": head_dim, "num_key_value_heads": heads})
            known |= {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
        elif model_type == "llama":  # see `windows`
            known |= {"sliding_window": None, "use_sliding_window": None, "layer_types": None}
        layers = layers.completed({"max_position_embeddings": LONGEST_CONTEXT}).replaced(known)
        return cls(layers, drafter, kind, is_of_speculators)

    def boundaries(self, target: ModelConfig) -> tuple[tuple[int, ...], bool]:
        """After how many of the target's layers features are taken, and whether the folder says so.

        The default of EAGLE-3 and P-EAGLE is 2, half of them, and all but 3 (SafeAILab/EAGLE). Raises CheckpointError.
        """
        name, depth, fields = self._boundary_field(), target.num_layers, self.drafter
        layers_before, ids = _BOUNDARIES[name], fields.raw(name)
        if ids is None:
            boundaries = self._default_boundaries(depth)
            if len({*boundaries}) < len(boundaries) or not 0 <= min(boundaries) <= max(boundaries) <= depth:
                raise fields.error(name, f"is missing, and the target's {depth} layers are too few for the default")
            return tuple(boundaries), False
        least, most = -layers_before, depth - layers_before
        if not _are_numbers(ids, least, most):
            problem = f"must be 1 to {_MOST_FEATURES} whole numbers from {least} to {most}, is {shown(ids)}"
            raise fields.error(name, problem)
        if len({*ids}) < len(ids):
            raise fields.error(name, f"must be different numbers, is {shown(ids)}")
        return tuple(each + layers_before for each in ids), True

    def windows(self, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """Return the layers with what else the fields say of their attention; raises CheckpointError.

        Those of Llama, which has no windows, get the ones that the speculators library lists.
        """
        if self.kind.has_context:
            return block_fields.looking_ahead(self.drafter, layers)
        own = self.drafter.nested("transformer_layer_config")
        types = own.raw("layer_types") if own is not None else None
        if own is None or own.raw("model_type") != "llama" or not isinstance(types, list) or SLIDING not in types:
            return layers
        if len(types) != len(layers):
            raise own.error("layer_types", f"must be {len(layers)} of them, is {shown(types)}")
        window = own.integer("sliding_window")
        pairs = zip(layers, types, strict=True)
        return tuple(Attention(window=window) if kind == SLIDING else layer for layer, kind in pairs)

    @property
    def block(self) -> FeatureBlock | None:
        """How it predicts several tokens at once; None for EAGLE-3. Raises CheckpointError."""
        if self.kind is DrafterKind.EAGLE3:
            return None
        if self.kind is DrafterKind.P_EAGLE:
            return block_fields.read_masks(self.drafter, self._num_trained or 0)
        is_dspark = self.kind is DrafterKind.DSPARK
        is_whole = not self.is_of_speculators or self._num_trained == self.drafter.raw("block_size")
        block = block_fields.read_block(self.drafter, first_predicts=is_dspark and is_whole)
        return block_fields.with_markov_head(self.drafter, block) if is_dspark else block

    @property
    def num_predictions(self) -> int:
        """The predictions of a step that the drafter was trained for."""
        block = self.block
        most = MOST_PREDICTIONS if block is None else min(block.most_predictions, MOST_PREDICTIONS)
        return min(self._num_trained or (DEFAULT_PREDICTIONS if block is None else most), most)

    @property
    def _num_trained(self) -> int | None:
        methods = (self.drafter.nested("speculators_config") or self.drafter).raw("proposal_methods")
        first = methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], dict) else {}
        count = first.get("speculative_tokens", self.drafter.raw("ttt_length"))
        return count if type(count) is int and count > 0 else None

    def _boundary_field(self) -> str:
        """The name of the field that says the boundaries, or would."""
        default = "eagle_aux_hidden_state_layer_ids"
        if self.kind.has_context:
            default = "aux_hidden_state_layer_ids" if self.is_of_speculators else "target_layer_ids"
        return next((name for name in _BOUNDARIES if name in self.drafter), default)

    def _default_boundaries(self, depth: int) -> list[int]:
        if self.kind.has_context:
            num_layers = self.layers.integer("num_hidden_layers", maximum=block_fields.MOST_LAYERS)
            return block_fields.default_boundaries(depth, min(num_layers, _MOST_FEATURES))
        return [2, depth // 2, depth - 3]


def limit_windows(layers: tuple[Layer, ...], most: int) -> tuple[Layer, ...]:
    """Return a drafter's layers, each with a window of at most so many positions: texts may be longer."""
    return tuple(
        replace(layer, window=min(layer.window or most, most)) if isinstance(layer, Attention) else layer
        for layer in layers
    )


def _are_numbers(values: object, least: int, most: int) -> TypeGuard[list[int]]:
    if not isinstance(values, list) or not 0 < len(values) <= _MOST_FEATURES:
        return False
    return all(type(each) is int and least <= each <= most for each in values)
