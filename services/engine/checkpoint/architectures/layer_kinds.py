"""The kinds of layers: which of them see the whole context, and which a window of it."""

from collections.abc import Callable

from services.engine.checkpoint.architectures.decoder_fields import read_num_layers
from services.engine.files.json_fields import JsonFields, shown

FULL, SLIDING = "full_attention", "sliding_attention"


def read_layer_types(config: JsonFields, is_sliding: Callable[[int], bool]) -> list[str]:
    """Read which kind of attention each layer has; `is_sliding` is the default.  # [layers]"""
    num_layers = read_num_layers(config)
    types = config.raw("layer_types")
    if types is None:
        return [SLIDING if is_sliding(layer) else FULL for layer in range(num_layers)]
    if not isinstance(types, list) or len(types) != num_layers or any(kind not in (FULL, SLIDING) for kind in types):
        raise config.error("layer_types", f"must be {num_layers} of {FULL} and {SLIDING}, is {shown(types)}")
    return types


def read_windows(config: JsonFields, types: list[str]) -> tuple[int, ...]:
    """Read each layer's window; as in transformers, a row at position p sees p - window + 1 … p.  # [layers]"""
    return tuple(config.integer("sliding_window") if kind == SLIDING else 0 for kind in types)


def read_one_window(config: JsonFields) -> tuple[int, ...]:
    """Read the window that all layers have, or none where it is null.  # [layers]"""
    window = config.integer_or_off("sliding_window")
    expected = SLIDING if window else FULL
    if {*read_layer_types(config, lambda _: window > 0)} != {expected}:
        raise config.error("layer_types", f"only {expected} is supported beside sliding_window {window or 'null'}")
    return (window,) * read_num_layers(config)


def every_but(period: int) -> Callable[[int], bool]:
    """Whether a layer slides where each `period`-th one does not."""
    return lambda layer: (layer + 1) % period != 0
