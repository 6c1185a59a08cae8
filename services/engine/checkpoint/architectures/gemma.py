"""Gemma 2 to 4: norms on both sides of the sublayers, scaled embeddings, windows on most layers."""

import re
from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import (
    MOST_HEAD_DIM,
    MOST_HEADS,
    read_decoder,
    read_num_heads,
    read_own_head_dim,
)
from services.engine.checkpoint.architectures.layer_kinds import (
    FULL,
    SLIDING,
    every_but,
    read_layer_types,
    read_layers,
)
from services.engine.checkpoint.architectures.mixture import read_experts
from services.engine.checkpoint.architectures.rope import read_global_and_local_ropes, read_rope
from services.engine.checkpoint.model_config import Attention, Experts, ModelConfig, QkNorm, Rope
from services.engine.files.json_fields import JsonFields

_LOCAL_THETA = 10_000.0
_MOST_LAYER_INPUT = 1 << 13


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


def _read_gemma4(config: JsonFields, context_length: int) -> ModelConfig:
    """Read Gemma 4, whose layers that attend to the whole context have heads of their own.

    The embedding's factor stays in float32, as in `_read_gemma`.
    """
    if config.raw("use_bidirectional_attention") not in (None, "vision"):  # the latter among tokens of a picture only
        raise config.error("use_bidirectional_attention", 'only null and "vision" are supported')
    types = [*read_layer_types(config, every_but(6))[:-1], FULL]
    head_dim = read_own_head_dim(config)
    whole = _read_global_heads(config, types)
    ropes = read_global_and_local_ropes(
        config, head_dim, context_length, local_theta="rope_local_base_freq", global_head_dim=whole.head_dim
    )
    decoder = read_decoder(config, context_length, head_dim, ropes, activation="hidden_activation")
    sliding = Attention(window=config.integer("sliding_window"), rope=1)
    layers = [sliding if kind == SLIDING else whole for kind in types]
    has_bias, vocab = config.flag("attention_bias", False), config.raw("vocab_size_per_layer_input")
    size = config.integer_or_zero("hidden_size_per_layer_input", maximum=_MOST_LAYER_INPUT)
    if size and vocab not in (None, decoder.vocab_size):
        raise config.error("vocab_size_per_layer_input", f"only vocab_size, {decoder.vocab_size}, is supported")
    return replace(
        decoder,
        layers=_share(config, decoder.intermediate_size, layers),
        attention_bias=has_bias,
        output_bias=has_bias,
        query_scale=1.0,
        embedding_scale=decoder.hidden_size**0.5,
        logit_softcap=config.number_or_off("final_logit_softcapping"),
        qk_norm=QkNorm.HEAD,
        value_norm=True,
        layer_scale=True,
        layer_input_size=size,
        post_norm=True,
        experts=_read_gemma4_experts(config) if config.flag("enable_moe_block", False) else None,
    )


def _read_global_heads(config: JsonFields, types: list[str]) -> Attention:
    """Read the heads of layers that attend to the whole context."""
    k_eq_v, num_heads = config.flag("attention_k_eq_v", False), read_num_heads(config)
    own, size, count = config, "global_head_dim", "num_global_key_value_heads"
    is_listed = config.raw("per_layer_config") is not None
    if is_listed:
        own, size, count = _read_listed_heads(config, types), "head_dim", "num_key_value_heads"
    size_of_whole = own.integer(size, read_own_head_dim(config), maximum=MOST_HEAD_DIM)
    if size_of_whole % 2:
        raise own.error(size, f"must be even, for rotary embeddings, is {size_of_whole}")
    kv_heads = own.integer(count, maximum=MOST_HEADS) if count in own and (k_eq_v or is_listed) else None
    if kv_heads and num_heads % kv_heads:
        raise own.error(count, f"must divide num_attention_heads {num_heads}, is {kv_heads}")
    return Attention(head_dim=size_of_whole, num_kv_heads=kv_heads, values_are_keys=k_eq_v)


def _read_listed_heads(config: JsonFields, types: list[str]) -> JsonFields:
    """Return the fields that transformers 5 writes for each layer whose heads differ; none if they are all alike."""
    if (listed := config.nested("per_layer_config")) is None:
        return config.empty("per_layer_config")
    first, *_ = listed
    whole = [index for index, kind in enumerate(types) if kind == FULL]
    numbers = [int(name) if re.fullmatch(r"[0-9]{1,4}", name) else -1 for name in listed]
    if sorted(numbers) != whole or any(listed.raw(name) != listed.raw(first) for name in listed):
        raise config.error("per_layer_config", f"must have the same for each layer of {FULL}, and no others")
    own = listed.required(first)
    if unknown := {*own} - {"head_dim", "num_key_value_heads"}:
        raise own.error(min(unknown), "is not supported")
    return own


def _share(config: JsonFields, size: int, layers: list[Attention]) -> tuple[Attention, ...]:
    """Return the layers; the last ones read the keys and values of the last layer of their kind before them."""
    num_shared = config.integer("num_kv_shared_layers", 0, minimum=0, maximum=len(layers) - 1)
    first = len(layers) - num_shared
    own = {layer: index for index, layer in enumerate(layers[:first])}
    if any(layer not in own for layer in layers[first:]):
        raise config.error("num_kv_shared_layers", f"leaves layers without any of their kind before, is {num_shared}")
    mlp = 2 * size if config.flag("use_double_wide_mlp", False) else None
    shared = [replace(layer, kv_layer=own[layer], values_are_keys=False, mlp_size=mlp) for layer in layers[first:]]
    return (*layers[:first], *shared)


def _read_gemma4_experts(config: JsonFields) -> Experts:
    """Read the experts beside each layer's MLP; the router and both of them have norms."""
    experts = read_experts(config, size="moe_intermediate_size", are_normalised=True, per_token="top_k_experts")
    return replace(experts, have_scales=True, have_norms=True)


_FIELDS = fields(
    "hidden_activation attention_bias query_pre_attn_scalar use_bidirectional_attention",
    "attn_logit_softcapping final_logit_softcapping hidden_act sliding_window sliding_window_size layer_types",
)
_DEFAULTS = {
    **{"rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    **{"query_pre_attn_scalar": 256, "sliding_window": 4096, "head_dim": 256},
}

_GEMMA4_DEFAULTS = {
    **{"rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    **{"vocab_size": 262_144, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
    **{"global_head_dim": 512, "rope_local_base_freq": _LOCAL_THETA, "final_logit_softcapping": None},
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": _LOCAL_THETA},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    },
}
_OF_SOME_GEMMAS4 = fields(
    "hidden_size_per_layer_input vocab_size_per_layer_input",
    "enable_moe_block num_experts top_k_experts moe_intermediate_size",
)
_GEMMA4 = Architecture(
    model_type="gemma4_text",
    models="Gemma 4 (E2B, E4B, 26B-A4B, 31B; 12B in GGUF files), without images and sound",
    features="as Gemma 3, with norms of values, scaled layers, and other heads on layers without a window; some "
    "with experts, some with inputs of each layer and shared keys and values",
    read_config=_read_gemma4,
    fields=fields(
        "hidden_activation attention_bias use_bidirectional_attention final_logit_softcapping sliding_window",
        "layer_types global_head_dim num_global_key_value_heads attention_k_eq_v per_layer_config",
        "num_kv_shared_layers use_double_wide_mlp",
    )
    | _OF_SOME_GEMMAS4,
    names=tensor_names.GEMMA4_NAMES,
    stacked_names=tensor_names.STACKED_GEMMA4_NAMES,
    defaults=_GEMMA4_DEFAULTS
    | {"sliding_window": 512, "max_position_embeddings": 131_072, "hidden_size_per_layer_input": 256},
)

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
    "Gemma4ForCausalLM": _GEMMA4,
    "Gemma4UnifiedForCausalLM": replace(
        _GEMMA4,
        model_type="gemma4_unified_text",
        models="Gemma 4 (12B), without images and sound",
        features="as the larger of Gemma 4 without experts",
        fields=_GEMMA4.fields - _OF_SOME_GEMMAS4,
        defaults=_GEMMA4_DEFAULTS
        | {"sliding_window": 1024, "max_position_embeddings": 262_144, "hidden_size_per_layer_input": None},
    ),
}
