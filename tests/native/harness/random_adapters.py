"""Random LoRA adapters of random models."""

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.weight_shapes import weight_shapes

CHANGED = ("q", "k", "v", "o", "gate", "up", "down")
Updates = dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""A and B of each weight that an adapter changes.  # [rank, in], [out, rank]"""


def random_updates(config: ModelConfig, *, rank: int, names: tuple[str, ...] = CHANGED, seed: int = 0) -> Updates:
    """A change of these weights of all layers."""
    rng, found = np.random.default_rng(seed), {}
    for name, shape in weight_shapes(config).items():
        if name.rpartition(".")[2] in names:
            down = rng.standard_normal((rank, shape[1])) / shape[1] ** 0.5
            up = rng.standard_normal((shape[0], rank)) / 8
            found[name] = (down.astype(np.float32), up.astype(np.float32))
    return found
