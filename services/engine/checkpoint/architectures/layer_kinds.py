"""The kinds of layers: those that attend to the whole context, and those with a sliding window."""

from collections.abc import Callable
from collections.abc import Sequence as Seq

from services.engine.checkpoint.architectures.decoder_fields import read_num_layers
from services.engine.checkpoint.model_config import Layer, attention_layers
from services.engine.files.json_fields import JsonFields, shown

FULL, SLIDING = "full_attention", "sliding_attention"


def read_layer_types(config: JsonFields, is_sliding: Callable[[int], bool]) -> list[str]:
    """Read the kind of each layer's attention; `is_sliding` gives the default. Raises CheckpointError.  # [layers]"""
    default = [SLIDING if is_sliding(layer) else FULL for layer in range(read_num_layers(config))]
    return read_listed_types(config, FULL, SLIDING) or default


def read_listed_types(config: JsonFields, *kinds: str) -> list[str] | None:
    """Read the kind of each layer, None if there is no list; raises CheckpointError.  # [layers]"""
    num_layers, types = read_num_layers(config), config.raw("layer_types")
    if types is None:
        return None
    if not isinstance(types, list) or len(types) != num_layers or any(kind not in kinds for kind in types):
        raise config.error("layer_types", f"must be {num_layers} of {' and '.join(kinds)}, is {shown(types)}")
    return types


def read_layers(config: JsonFields, types: list[str], ropes: Seq[int] = ()) -> tuple[Layer, ...]:
    """Read the layers of these kinds, with the rope of each; position p attends to p - window + 1 … p."""
    windows = [config.integer("sliding_window") if kind == SLIDING else 0 for kind in types]
    return attention_layers(windows, ropes)


def read_layers_alike(config: JsonFields) -> tuple[Layer, ...]:
    """Return layers with one window, or none if it is null; raises CheckpointError."""
    window = config.integer_or_off("sliding_window")
    expected = SLIDING if window else FULL
    if {*read_layer_types(config, lambda _: window > 0)} != {expected}:
        raise config.error("layer_types", f"only {expected} is supported beside sliding_window {window or 'null'}")
    return attention_layers([window] * read_num_layers(config))


def every_but(period: int) -> Callable[[int], bool]:
    """Return whether a layer is windowed, if all are but every `period`-th one."""
    return lambda layer: (layer + 1) % period != 0
