"""Cohere: attention and MLP in parallel after one layer norm. Cohere 2: rotary embeddings on windowed layers only."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_head_dim
from services.engine.checkpoint.architectures.layer_kinds import FULL, every_but, read_layer_types, read_layers
from services.engine.checkpoint.architectures.rope import NO_ROPE, read_rope
from services.engine.checkpoint.model_config import ModelConfig, Norm, QkNorm
from services.engine.files.json_fields import JsonFields


def _read_cohere(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim, has_bias = read_head_dim(config), config.flag("attention_bias", False)
    rope = read_rope(config, head_dim, context_length)
    return replace(
        read_decoder(config, context_length, head_dim, (rope,), norm_eps="layer_norm_eps"),
        norm=Norm.LAYER,
        qk_norm=QkNorm.EACH if config.flag("use_qk_norm", False) else QkNorm.NONE,
        parallel_mlp=True,
        attention_bias=has_bias,
        output_bias=has_bias,
        logit_scale=config.number("logit_scale"),
    )


def _read_cohere2(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_cohere(config, context_length)
    types = read_layer_types(config, every_but(config.integer("sliding_window_pattern", 4)))
    return replace(
        decoder,
        ropes=(*decoder.ropes, NO_ROPE),
        layers=read_layers(config, types, [int(kind == FULL) for kind in types]),
    )


_FIELDS = fields("hidden_act layer_norm_eps attention_bias logit_scale")
_DEFAULTS = {"layer_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True, "logit_scale": 0.0625}

COHERE = {
    "CohereForCausalLM": Architecture(
        model_type="cohere",
        models="Command R, Command R+, Aya 23, Aya Expanse (8B, 32B)",
        features="layer norms, optionally of each head too; parallel MLP; interleaved rotary embeddings",
        read_config=_read_cohere,
        fields=_FIELDS | fields("use_qk_norm"),
        names=tensor_names.COHERE_NAMES,
        defaults=_DEFAULTS | {"rope_theta": 500_000.0},
        turns_neighbours=True,
    ),
    "Cohere2ForCausalLM": Architecture(
        model_type="cohere2",
        models="Command R7B, Command A",
        features="layer norms; parallel MLP; interleaved rotary embeddings, on windowed layers only",
        read_config=_read_cohere2,
        fields=_FIELDS | fields("sliding_window sliding_window_pattern layer_types"),
        names=tensor_names.COHERE_NAMES,
        defaults=_DEFAULTS | {"sliding_window": 4096},
        turns_neighbours=True,
    ),
}
