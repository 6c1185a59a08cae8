"""Gemma 2 and 3: norms on both sides of the sublayers, scaled embeddings, windows on most layers."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_own_head_dim
from services.engine.checkpoint.architectures.layer_kinds import SLIDING, every_but, read_layer_types, read_layers
from services.engine.checkpoint.architectures.rope import read_global_and_local_ropes, read_rope
from services.engine.checkpoint.model_config import ModelConfig, QkNorm, Rope
from services.engine.files.json_fields import JsonFields

_LOCAL_THETA = 10_000.0


def _read_gemma2(config: JsonFields, context_length: int) -> ModelConfig:
    types = read_layer_types(config, every_but(2))
    rope = read_rope(config, read_own_head_dim(config), context_length)
    return replace(
        _read_gemma(config, context_length, (rope,)),
        layers=read_layers(config, types),
        attention_softcap=config.number_or_off("attn_logit_softcapping"),
        logit_softcap=config.number_or_off("final_logit_softcapping"),
    )


def _read_gemma3(config: JsonFields, context_length: int) -> ModelConfig:
    for field in ("attn_logit_softcapping", "final_logit_softcapping"):
        if field in config:
            raise config.error(field, "only null is supported")
    types = read_layer_types(config, every_but(config.integer("sliding_window_pattern", 6)))
    ropes = read_global_and_local_ropes(
        config, read_own_head_dim(config), context_length, local_theta="rope_local_base_freq"
    )
    return replace(
        _read_gemma(config, context_length, ropes),
        layers=read_layers(config, types, [int(kind == SLIDING) for kind in types]),
        qk_norm=QkNorm.HEAD,
    )


def _read_gemma(config: JsonFields, context_length: int, ropes: tuple[Rope, ...]) -> ModelConfig:
    """Read the fields that all Gemmas share.

    The embedding's factor √hidden stays in float32; transformers rounds it to the weights' type, which is less exact.
    """
    if config.flag("use_bidirectional_attention", False):
        raise config.error("use_bidirectional_attention", "only false is supported")
    head_dim, has_bias = read_own_head_dim(config), config.flag("attention_bias", False)
    decoder = read_decoder(config, context_length, head_dim, ropes, activation="hidden_activation")
    return replace(
        decoder,
        attention_bias=has_bias,
        output_bias=has_bias,
        query_scale=config.number("query_pre_attn_scalar") ** -0.5,
        embedding_scale=decoder.hidden_size**0.5,
        post_norm=True,
    )


_FIELDS = fields(
    "hidden_activation attention_bias query_pre_attn_scalar use_bidirectional_attention",
    "attn_logit_softcapping final_logit_softcapping hidden_act sliding_window sliding_window_size layer_types",
)
_DEFAULTS = {
    **{"rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    **{"query_pre_attn_scalar": 256, "sliding_window": 4096, "head_dim": 256},
}

GEMMA = {
    "Gemma2ForCausalLM": Architecture(
        model_type="gemma2",
        models="Gemma 2",
        features="norms on both sides; soft caps; every other layer windowed; scaled embeddings",
        read_config=_read_gemma2,
        fields=_FIELDS,
        names=tensor_names.GEMMA2_NAMES,
        defaults=_DEFAULTS
        | {"num_key_value_heads": 4, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        norms_are_offsets=True,
    ),
    "Gemma3ForCausalLM": Architecture(
        model_type="gemma3_text",
        models="Gemma 3 (270M, 1B)",
        features="norms on both sides, of queries and keys too; five of six layers windowed, with another rotary table",
        read_config=_read_gemma3,
        fields=_FIELDS | fields("sliding_window_pattern rope_local_base_freq"),
        names=tensor_names.GEMMA3_NAMES,
        defaults={
            **_DEFAULTS,
            **{"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4},
            **{"max_position_embeddings": 131_072, "rope_theta": 1_000_000.0, "rope_local_base_freq": _LOCAL_THETA},
        },
        norms_are_offsets=True,
    ),
}
