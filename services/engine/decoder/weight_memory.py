"""weight_memory: estimates the memory of a checkpoint's weights before they are loaded."""

import math

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.weight_shapes import count_parameters, weight_shapes
from services.engine.decoder.weight_choice import STORED

_BITS = {
    "f32": 32.0,
    "bf16": 16.0,
    "fp8": 8.25,
    "int8": 8.25,
    "int4": 4.5,
}  # bits of each weight, including its part of a scale
_LEAST_BITS = 8.25  # of the embedding and the output matrix, which are at least int8


def weight_memory(checkpoint: Checkpoint, weights: str) -> int:
    """Return the bytes of a checkpoint's weights in a format, including scales."""
    if weights == STORED:
        return sum(state.size for state in checkpoint.file_states())
    config, bits = checkpoint.config, _BITS[weights]
    in_tables = sum(math.prod(shape) for shape in weight_shapes(config).values() if shape[0] == config.vocab_size)
    return round(count_parameters(config) * bits + in_tables * max(0.0, _LEAST_BITS - bits)) // 8
