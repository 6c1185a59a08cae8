"""DrafterFields: the fields of a drafter's config.json, whichever program has written it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from services.engine.checkpoint.model_config import Attention, Layer, ModelConfig
from services.engine.files.json_fields import JsonFields, shown

LONGEST_CONTEXT = 2048
"""The most positions that a drafter reads: those before them matter little, and old drafters know no more."""

DEFAULT_PREDICTIONS = 3
"""Of a step, for a drafter that does not say how many."""

_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}  # of a drafter's layers, by model_type
_MOST_PREDICTIONS = 15
_MOST_FEATURES = 8
_OF_DRAFTERS = (
    *("draft_vocab_size", "eagle_config", "eagle_aux_hidden_state_layer_ids", "target_hidden_size"),
    *("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output"),
)


@dataclass(frozen=True, slots=True)
class DrafterFields:
    """The fields of a folder with a drafter."""

    layers: JsonFields  # as the config.json of a model with such layers
    drafter: JsonFields  # those of config.json itself
    is_of_speculators: bool

    @classmethod
    def read(cls, config: JsonFields) -> "DrafterFields":
        """Tell the kinds of folders apart; raises CheckpointError for one that is no EAGLE-3 drafter."""
        if "speculators_model_type" in config:
            config.choice("speculators_model_type", ("eagle3",))
            layers = config.required("transformer_layer_config")
        elif is_drafter(config):
            layers = config
        else:
            raise config.error("architectures", f"{shown(config.raw('architectures'))} is no EAGLE-3 drafter")
        known: dict[str, object] = dict.fromkeys(_OF_DRAFTERS)
        architecture = _ARCHITECTURES[layers.choice("model_type", _ARCHITECTURES)]
        layers = layers.completed({"max_position_embeddings": LONGEST_CONTEXT})
        layers = layers.replaced({**known, "architectures": [architecture], "tie_word_embeddings": False})
        return cls(layers, config, "speculators_model_type" in config)

    def boundaries(self, target: ModelConfig) -> tuple[tuple[int, ...], bool]:
        """After how many of the target's layers features are taken, and whether the folder says so.

        By default it is after 2, half of them, and all but 3 (SafeAILab/EAGLE). Raises CheckpointError.
        """
        name = "eagle_aux_hidden_state_layer_ids"
        eagle = self.drafter.nested("eagle_config")
        fields = eagle if eagle is not None and name in eagle else self.drafter
        depth = target.num_layers
        ids = fields.raw(name)
        boundaries = _default_boundaries(depth) if ids is None else ids
        if boundaries is None:
            raise fields.error(name, f"is missing, and the target's {depth} layers are too few for the default")
        if not _are_numbers(boundaries, depth):
            problem = f"must be 1 to {_MOST_FEATURES} whole numbers from 0 to {depth}, is {shown(boundaries)}"
            raise fields.error(name, problem)
        if len({*boundaries}) < len(boundaries):
            raise fields.error(name, f"must be different numbers, is {shown(boundaries)}")
        return tuple(boundaries), ids is not None

    @property
    def num_predictions(self) -> int:
        """The predictions of a step that the drafter was trained for."""
        methods = (self.drafter.nested("speculators_config") or self.drafter).raw("proposal_methods")
        first = methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], dict) else {}
        count = first.get("speculative_tokens")
        return min(count, _MOST_PREDICTIONS) if type(count) is int and count > 0 else DEFAULT_PREDICTIONS


def is_drafter(config: JsonFields) -> bool:
    """Whether a config.json describes an attached drafter, not a model."""
    names = config.raw("architectures")
    is_named = isinstance(names, list) and any("eagle3" in str(name).lower() for name in names)
    return is_named or any(name in config for name in ("speculators_model_type", "draft_vocab_size", "eagle_config"))


def is_drafter_folder(folder: Path) -> bool:
    """Whether a path is a folder with an attached drafter, not a model; raises CheckpointError."""
    path = folder / "config.json"
    return path.is_file() and is_drafter(JsonFields.from_file(path))


def limit_windows(layers: tuple[Layer, ...], most: int) -> tuple[Layer, ...]:
    """Return a drafter's layers, each with a window of at most so many positions: texts may be longer."""
    return tuple(
        replace(layer, window=min(layer.window or most, most)) if isinstance(layer, Attention) else layer
        for layer in layers
    )


def _default_boundaries(depth: int) -> list[int] | None:
    boundaries = [2, depth // 2, depth - 3]
    return boundaries if len({*boundaries}) == len(boundaries) and min(boundaries) >= 0 else None


def _are_numbers(values: object, most: int) -> TypeGuard[list[int]]:
    if not isinstance(values, list) or not 0 < len(values) <= _MOST_FEATURES:
        return False
    return all(type(each) is int and 0 <= each <= most for each in values)
