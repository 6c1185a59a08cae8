"""Memory plan: how the models of a target share the memory budget, by the estimated memory of their weights."""

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from services.engine.checkpoint.attached.attached_drafter import warn_of_own_layer
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.weight_shapes import count_parameters, weight_shapes
from services.engine.config import HOST_KV_MEMORY, ConfigError, EngineConfig
from services.engine.decoder.model_loader import find_blocks
from services.engine.decoder.weight_choice import STORED
from services.engine.hub.fetch import fetch
from services.engine.loaded_drafter import drafter_weights, find_drafter, shortlist_parameters

_BITS = {
    "f32": 32.0,
    "bf16": 16.0,
    "fp8": 8.25,
    "int8": 8.25,
    "int4": 4.5,
}  # bits of each weight, including its part of a scale
_LEAST_BITS = 8.25  # of the embedding and the output matrix, which are at least int8


@dataclass(frozen=True, slots=True)
class MemoryShare:
    """One model's engine configuration, and the bytes that it takes while it is loaded."""

    engine: EngineConfig
    weights: int
    cache: int

    @property
    def total(self) -> int:
        """Bytes of the weights and the cache."""
        return self.weights + self.cache


@dataclass(frozen=True, slots=True)
class _Need:
    engine: EngineConfig
    model: ModelConfig
    weights: int  # bytes, those of its attached drafter included
    drafter: ModelConfig | None = None

    @property
    def is_cache_set(self) -> bool:
        return self.engine.kv_memory is not None or self.engine.kv_blocks is not None

    def cache(self, num_blocks: int) -> int:
        """Bytes of `num_blocks` blocks, and of the offload and the states."""
        return num_blocks * (self.engine.block_bytes(self.model) + self.drafter_block_bytes) + self.others

    @property
    def others(self) -> int:
        """Bytes of the offload and the states."""
        return self.engine.other_memory(self.model)

    @property
    def drafter_block_bytes(self) -> int:
        """Bytes of an attached drafter's part of each block."""
        return self.engine.block_bytes(self.drafter) if self.drafter is not None else 0

    def kv_memory(self, room: int) -> int:
        """The bytes of `room` that are the model's own blocks."""
        block_bytes = self.engine.block_bytes(self.model)
        return (room - self.others) * block_bytes // (block_bytes + self.drafter_block_bytes)

    @property
    def least_cache(self) -> int:
        return self.cache(self.engine.num_blocks(self.model) if self.is_cache_set else 1)

    @property
    def longest_cache(self) -> int:
        """Bytes of a cache for one sequence that fills the context."""
        return self.cache(self.engine.blocks_each(self.model))


def plan_memory(models: Seq[tuple[str, EngineConfig]], budget: int) -> list[MemoryShare]:
    """Divide a budget of bytes among models, given their names and configurations; reads the checkpoints' headers.

    Caches without a configured size get equal parts of the memory that all weights leave, if each part holds a whole
    context, so that all models can be loaded at once; otherwise each gets all that its own weights leave. No share
    depends on which models are loaded, so that a model's context length and fingerprint are the same at every loading.
    Raises ConfigError for a model that never fits, and CheckpointError.
    """
    needs = [_need(config, budget) for _, config in models]
    for (name, _), need in zip(models, needs, strict=True):
        _check(name, need, budget)
    unset = [need for need in needs if not need.is_cache_set]
    left = budget - sum(need.weights + (need.least_cache if need.is_cache_set else 0) for need in needs)
    part = left // max(1, len(unset))
    is_for_all = all(part >= need.longest_cache for need in unset)
    return [_share(need, part if is_for_all else budget - need.weights) for need in needs]


def _need(config: EngineConfig, budget: int) -> _Need:
    """What a model needs, without its own layer for multi-token prediction if the budget holds only the rest."""
    checkpoint = load_checkpoint(fetch(config.model).path, context_length=config.context_length)
    held = config.resolve_weights(checkpoint.config, is_grouped=bool(find_blocks(checkpoint)))
    weights = weight_memory(checkpoint, held)
    if (attached := find_drafter(config, checkpoint)) is None:
        return _Need(config, checkpoint.config, weights)
    drafter, in_memory = attached.checkpoint, drafter_weights(held)
    shortlist = round(shortlist_parameters(attached) * _BITS[in_memory]) // 8
    need = _Need(config, checkpoint.config, weights + weight_memory(drafter, in_memory) + shortlist, drafter.config)
    if config.head is None and need.weights + need.least_cache > budget:
        warn_of_own_layer(f"memory_budget is {budget} bytes, and with it the model takes {need.weights} of weights")
        return _Need(replace(config, uses_mtp=False), checkpoint.config, weights)
    return need


def _check(name: str, need: _Need, budget: int) -> None:
    if (together := need.weights + need.least_cache) > budget:
        cache = "of KV cache" if need.is_cache_set else "of KV cache for one block"
        raise ConfigError(
            f"memory_budget is {budget} bytes; model {name!r} takes {need.weights} of weights and {need.least_cache} "
            f"{cache}, together {together}, so that it never fits"
        )


def _share(need: _Need, room: int) -> MemoryShare:
    engine = need.engine
    if not need.is_cache_set:
        engine = replace(engine, kv_memory=min(HOST_KV_MEMORY, need.kv_memory(room)))
    return MemoryShare(engine, need.weights, need.cache(engine.num_blocks(need.model)))


def weight_memory(checkpoint: Checkpoint, weights: str) -> int:
    """Return the bytes of a checkpoint's weights in a format, including scales."""
    if weights == STORED:
        return sum(state.size for state in checkpoint.file_states())
    config, bits = checkpoint.config, _BITS[weights]
    in_tables = sum(math.prod(shape) for shape in weight_shapes(config).values() if shape[0] == config.vocab_size)
    return round(count_parameters(config) * bits + in_tables * max(0.0, _LEAST_BITS - bits)) // 8
