"""Biases that a configuration declares but no file holds: they are zeros, as in transformers."""

from collections.abc import Mapping
from dataclasses import replace

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.stored_tensors import StoredTensors

_FIRST = "layers.0.o_bias"


def without_absent_biases(
    config: ModelConfig, names: Mapping[str, tuple[str, ...]], tensors: StoredTensors
) -> ModelConfig:
    """Return the configuration, without biases on attention's output if the files have none for the first layer."""
    has_bias = any(tensor in tensors for tensor, ours in names.items() if ours == (_FIRST,))
    return replace(config, output_bias=config.output_bias and has_bias)
