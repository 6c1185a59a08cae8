"""StableLM: layer norms with biases, rotary embeddings in a part of each head, and optionally a parallel MLP."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import read_decoder, read_head_dim
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import ModelConfig, Norm, QkNorm
from services.engine.files.json_fields import JsonFields


def _read_stablelm(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = read_head_dim(config)
    rope = read_rope(config, head_dim, context_length, partial=0.25)
    return replace(
        read_decoder(config, context_length, head_dim, (rope,), norm_eps="layer_norm_eps"),
        norm=Norm.LAYER,
        norm_bias=True,
        qk_norm=QkNorm.EACH if config.flag("qk_layernorm", False) else QkNorm.NONE,
        attention_bias=config.flag("use_qkv_bias", False),
        parallel_mlp=config.flag("use_parallel_residual", False),
    )


STABLELM = {
    "StableLmForCausalLM": Architecture(
        model_type="stablelm",
        models="StableLM 2 (1.6B, 12B), StableLM 3B-4E1T, StableLM Zephyr, Stable Code 3B",
        features="layer norms, optionally of each head too; rotary embeddings in a part of each head; parallel MLP",
        read_config=_read_stablelm,
        fields=fields("hidden_act layer_norm_eps use_qkv_bias qk_layernorm use_parallel_residual"),
        names=tensor_names.STABLELM_NAMES,
        defaults={"layer_norm_eps": 1e-5, "hidden_act": "silu", "num_key_value_heads": 32},
    ),
}
