"""Llama, and architectures that differ from it by few fields: Mistral, Ministral, SmolLM3, Granite."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_num_layers, read_plain_decoder
from services.engine.checkpoint.architectures.layer_kinds import (
    FULL,
    read_layer_types,
    read_layers,
    read_layers_alike,
)
from services.engine.checkpoint.architectures.rope import NO_ROPE, read_original_length
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.files.json_fields import JsonFields, is_number, shown


def _read_llama(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = read_plain_decoder(config, context_length)
    has_bias = config.flag("attention_bias", False)
    return replace(decoder, attention_bias=has_bias, output_bias=has_bias, mlp_bias=config.flag("mlp_bias", False))


def _read_mistral(config: JsonFields, context_length: int) -> ModelConfig:
    return replace(read_plain_decoder(config, context_length), layers=read_layers_alike(config))


def _read_ministral(config: JsonFields, context_length: int) -> ModelConfig:
    window = config.integer_or_off("sliding_window")
    types = read_layer_types(config, lambda _: window > 0)
    return replace(read_plain_decoder(config, context_length), layers=read_layers(config, types))


def _read_ministral3(config: JsonFields, context_length: int) -> ModelConfig:
    """Read Ministral 3, which scales queries by the logarithm of the position: by 1 within the original context."""
    settings = config.nested("rope_parameters") or config.empty("rope_parameters")
    beta, original = settings.raw("llama_4_scaling_beta"), read_original_length(settings, config)
    if beta is not None and not is_number(beta):
        raise settings.error("llama_4_scaling_beta", f"must be a number, is {shown(beta)}")
    if beta and context_length > original:
        problem = f"is carried out up to {original} positions; --context-length must be that or less"
        raise settings.error("llama_4_scaling_beta", problem)
    return _read_mistral(config, context_length)


def _read_smollm3(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_llama(config, context_length)
    turns = _read_turning_layers(config)
    has_windows = config.flag("use_sliding_window", False)
    window = config.integer_or_off("sliding_window") if has_windows else 0
    types = read_layer_types(config, lambda layer: window > 0 and not turns[layer])
    if not has_windows:
        types = [FULL] * len(types)  # transformers ignores layer_types then
    return replace(
        decoder,
        ropes=(*decoder.ropes, NO_ROPE),
        layers=read_layers(config, types, [int(not turn) for turn in turns]),
    )


def _read_turning_layers(config: JsonFields) -> list[bool]:
    """Read which layers have rotary embeddings.  # [layers]"""
    num_layers, turns = read_num_layers(config), config.raw("no_rope_layers")
    if turns is None:
        interval = config.integer("no_rope_layer_interval", 4)
        return [(layer + 1) % interval != 0 for layer in range(num_layers)]
    if not isinstance(turns, list) or len(turns) < num_layers or any(turn not in (0, 1) for turn in turns):
        raise config.error("no_rope_layers", f"must be {num_layers} of 0 and 1, is {shown(turns)}")
    return [bool(turn) for turn in turns[:num_layers]]


def _read_granite(config: JsonFields, context_length: int) -> ModelConfig:
    """Read Granite, which multiplies the outputs of sublayers by a number.

    Norms depend only on the residual's direction, so dividing the embeddings by that number, and the norms' epsilon by
    its square, gives the same result without any cost.
    """
    decoder, residual = _read_llama(config, context_length), config.number("residual_multiplier", 1.0)
    return replace(
        decoder,
        embedding_scale=config.number("embedding_multiplier", 1.0) / residual,
        norm_eps=decoder.norm_eps / residual**2,
        query_scale=config.number("attention_multiplier", 1.0),
        logit_scale=1.0 / config.number("logits_scaling", 1.0),
    )


_LLAMA = fields("hidden_act attention_bias mlp_bias")
_WINDOWED = fields("hidden_act sliding_window layer_types")
_DEFAULTS = {"hidden_act": "silu", "rms_norm_eps": 1e-6}

LLAMA = {
    "LlamaForCausalLM": Architecture(
        model_type="llama",
        models="Llama 2 to 3.3, SmolLM 1 and 2, Falcon 3, Yi, DeepSeek-R1-Distill-Llama, TinyLlama",
        features="optional biases",
        read_config=_read_llama,
        fields=_LLAMA,
        names=tensor_names.LLAMA_NAMES,
        defaults=_DEFAULTS,
    ),
    "MistralForCausalLM": Architecture(
        model_type="mistral",
        models="Mistral 7B, Nemo, Small 2 and 3, Devstral, Mathstral",
        features="a window on all layers",
        read_config=_read_mistral,
        fields=_WINDOWED,
        names=tensor_names.LLAMA_NAMES,
        defaults=_DEFAULTS | {"num_key_value_heads": 8, "sliding_window": 4096},
    ),
    "MinistralForCausalLM": Architecture(
        model_type="ministral",
        models="Ministral 8B (2410)",
        features="windows on some layers",
        read_config=_read_ministral,
        fields=_WINDOWED,
        names=tensor_names.LLAMA_NAMES,
        defaults=_DEFAULTS | {"num_key_value_heads": 8, "sliding_window": 4096},
    ),
    "Ministral3ForCausalLM": Architecture(
        model_type="ministral3",
        models="Ministral 3 (3B, 8B, 14B), within its original context",
        features="YaRN",
        read_config=_read_ministral3,
        fields=_WINDOWED,
        names=tensor_names.LLAMA_NAMES,
        defaults={
            **{"rms_norm_eps": 1e-5, "hidden_act": "silu", "num_key_value_heads": 8, "sliding_window": None},
            "head_dim": 128,
            "rope_parameters": {
                **{"type": "yarn", "rope_theta": 1_000_000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0},
                **{"original_max_position_embeddings": 16_384, "mscale": 1.0, "mscale_all_dim": 1.0},
                "llama_4_scaling_beta": 0.1,
            },
        },
    ),
    "SmolLM3ForCausalLM": Architecture(
        model_type="smollm3",
        models="SmolLM3",
        features="every fourth layer without rotary embeddings",
        read_config=_read_smollm3,
        fields=_LLAMA | _WINDOWED | fields("no_rope_layers no_rope_layer_interval use_sliding_window"),
        names=tensor_names.LLAMA_NAMES,
        defaults={
            **_DEFAULTS,
            **{"num_key_value_heads": 4, "tie_word_embeddings": True, "rope_theta": 2_000_000.0},
            "sliding_window": None,
        },
    ),
    "GraniteForCausalLM": Architecture(
        model_type="granite",
        models="Granite 3.0 to 3.3 (dense)",
        features="multipliers of embeddings, scores, sublayers and logits",
        read_config=_read_granite,
        fields=_LLAMA | fields("embedding_multiplier attention_multiplier residual_multiplier logits_scaling"),
        names=tensor_names.LLAMA_NAMES,
        defaults=_DEFAULTS,
    ),
}
