"""Configurations without one of their features: a decoder that ignores it computes the same of both."""

from dataclasses import replace
from typing import Any

from services.engine.checkpoint.model_config import Attention, GatedDelta, ModelConfig, QkNorm, ShortConvolution
from tests.native.harness.parity import plain_rope


def with_layers(config: ModelConfig, **changes: Any) -> ModelConfig:
    """With other fields in each layer with attention."""
    layers = (replace(layer, **changes) if isinstance(layer, Attention) else layer for layer in config.layers)
    return replace(config, layers=tuple(layers))


def with_latents(config: ModelConfig, **changes: Any) -> ModelConfig:
    return replace(config, layers=tuple(replace(layer, **changes) for layer in config.layers))


def without_windows(config: ModelConfig) -> ModelConfig:
    return with_layers(config, window=0)


def with_experts(config: ModelConfig, **changes: Any) -> ModelConfig:
    assert config.experts is not None
    return replace(config, experts=replace(config.experts, **changes))


def with_one_rope(config: ModelConfig) -> ModelConfig:
    return with_layers(config, rope=0)


def without_stretched_ropes(config: ModelConfig) -> ModelConfig:
    """A table that turns nothing stays, and so does the scale of cosine and sine."""
    tables = [
        replace(plain_rope(config, rotary_dim=2 * len(rope.frequencies)), scale=rope.scale)
        if any(rope.frequencies)
        else rope
        for rope in config.ropes
    ]
    return replace(config, ropes=tuple(tables))


def without_rope_scale(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=tuple(replace(rope, scale=1.0) for rope in config.ropes))


def without_attention_bias(config: ModelConfig) -> ModelConfig:
    return replace(config, attention_bias=False)


def without_qk_norm(config: ModelConfig) -> ModelConfig:
    return replace(config, qk_norm=QkNorm.NONE)


def without_norms_after(config: ModelConfig) -> ModelConfig:
    return replace(config, post_norm=False)


def with_fewer_taps(config: ModelConfig) -> ModelConfig:
    """With two, as if the others were not there."""
    of_taps = (ShortConvolution, GatedDelta)
    layers = (replace(layer, taps=2) if isinstance(layer, of_taps) else layer for layer in config.layers)
    return replace(config, layers=tuple(layers))
