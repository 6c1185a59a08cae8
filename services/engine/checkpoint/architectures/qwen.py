"""Qwen 2, 2.5 and 3: optional windows on the layers from a given one on."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_own_head_dim, read_plain_decoder
from services.engine.checkpoint.architectures.layer_kinds import SLIDING, read_layer_types, read_layers
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import Layer, ModelConfig, QkNorm
from services.engine.files.json_fields import JsonFields


def _read_qwen2(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = read_plain_decoder(config, context_length)
    return replace(decoder, attention_bias=True, layers=_read_layers(config))


def _read_qwen3(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = read_own_head_dim(config)
    decoder = read_decoder(config, context_length, head_dim, (read_rope(config, head_dim, context_length),))
    has_bias = config.flag("attention_bias", False)
    return replace(
        decoder,
        attention_bias=has_bias,
        output_bias=has_bias,
        qk_norm=QkNorm.HEAD,
        layers=_read_layers(config),
    )


def _read_layers(config: JsonFields) -> tuple[Layer, ...]:
    """Read the layers; with `use_sliding_window` those from `max_window_layers` on have windows."""
    has_windows = config.flag("use_sliding_window", False)
    first = config.integer("max_window_layers", minimum=0) if has_windows and "layer_types" not in config else 0
    types = read_layer_types(config, lambda layer: has_windows and layer >= first)
    if SLIDING in types and not has_windows:
        raise config.error("layer_types", f"{SLIDING} needs use_sliding_window, which is false")
    return read_layers(config, types)


_FIELDS = fields("hidden_act sliding_window layer_types use_sliding_window max_window_layers")
_DEFAULTS = {
    **{"rms_norm_eps": 1e-6, "hidden_act": "silu", "num_key_value_heads": 32},
    **{"sliding_window": 4096, "max_window_layers": 28},
}

QWEN = {
    "Qwen2ForCausalLM": Architecture(
        model_type="qwen2",
        models="Qwen 2, 2.5, 2.5-Coder, QwQ, DeepSeek-R1-Distill-Qwen",
        features="biases on query, key and value; windows from a layer on",
        read_config=_read_qwen2,
        fields=_FIELDS,
        names=tensor_names.LLAMA_NAMES,
        defaults=_DEFAULTS,
    ),
    "Qwen3ForCausalLM": Architecture(
        model_type="qwen3",
        models="Qwen 3 (dense)",
        features="norms of each query and key; windows from a layer on",
        read_config=_read_qwen3,
        fields=_FIELDS | {"attention_bias"},
        names=tensor_names.QWEN3_NAMES,
        defaults={**_DEFAULTS, "head_dim": 128},
    ),
}
