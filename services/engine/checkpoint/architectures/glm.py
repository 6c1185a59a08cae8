"""GLM 4: interleaved rotary embeddings in half of each head; biases on query, key and value."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_own_head_dim
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.files.json_fields import JsonFields


def _read_glm(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = read_own_head_dim(config)
    rope = read_rope(config, head_dim, context_length, partial=0.5)
    decoder = read_decoder(config, context_length, head_dim, (rope,))
    return replace(decoder, attention_bias=config.flag("attention_bias", True))


def _read_glm4(config: JsonFields, context_length: int) -> ModelConfig:
    return replace(_read_glm(config, context_length), post_norm=True)


_DEFAULTS = {
    **{"rms_norm_eps": 1.5625e-07, "hidden_act": "silu", "head_dim": 128, "num_key_value_heads": 2},
    "attention_bias": True,
}

GLM = {
    "GlmForCausalLM": Architecture(
        model_type="glm",
        models="GLM-4-9B",
        features="interleaved rotary embeddings, in half of each head; biases on query, key and value; fused tensors",
        read_config=_read_glm,
        fields=fields("hidden_act attention_bias"),
        names=tensor_names.GLM_NAMES,
        defaults=_DEFAULTS,
        turns_neighbours=True,
    ),
    "Glm4ForCausalLM": Architecture(
        model_type="glm4",
        models="GLM-4-0414, GLM-Z1 (9B, 32B)",
        features="as GLM, with norms on both sides",
        read_config=_read_glm4,
        fields=fields("hidden_act attention_bias"),
        names=tensor_names.GLM4_NAMES,
        defaults=_DEFAULTS,
        turns_neighbours=True,
    ),
}
