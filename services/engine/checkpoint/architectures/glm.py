"""GLM 4: rotary embeddings in half of each head; GLM 4.5 to 4.7 have experts."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, MtpNames, fields
from services.engine.checkpoint.architectures.decoder_fields import (
    MOST_INTERMEDIATE,
    read_decoder,
    read_head_dim,
    read_own_head_dim,
)
from services.engine.checkpoint.architectures.mixture import read_scored_experts, with_experts, with_groups
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import Experts, ModelConfig, QkNorm
from services.engine.files.json_fields import JsonFields

_PARTIAL = 0.5  # the part of each head that turns
SUM_OFFSET = 1e-20  # of the weights of a token's experts
_MOST_SHARED = 64


def _read_glm(config: JsonFields, context_length: int) -> ModelConfig:
    head_dim = read_own_head_dim(config)
    rope = read_rope(config, head_dim, context_length, partial=_PARTIAL)
    decoder = read_decoder(config, context_length, head_dim, (rope,))
    return replace(decoder, attention_bias=config.flag("attention_bias", True))


def _read_glm4(config: JsonFields, context_length: int) -> ModelConfig:
    return replace(_read_glm(config, context_length), post_norm=True)


def _read_glm4_moe(config: JsonFields, context_length: int) -> ModelConfig:
    """Read a mixture; its first layers have an MLP, the others experts beside one that has the size of a few."""
    head_dim = read_head_dim(config)
    rope = read_rope(config, head_dim, context_length, partial=_PARTIAL)
    decoder = replace(
        read_decoder(config, context_length, head_dim, (rope,)),
        attention_bias=config.flag("attention_bias", False),
        qk_norm=QkNorm.HEAD if config.flag("use_qk_norm", False) else QkNorm.NONE,
    )
    experts = read_scored_experts(config, sum_offset=SUM_OFFSET, has_choice_bias=True, count="n_routed_experts")
    first = config.integer("first_k_dense_replace", 1, minimum=0, maximum=decoder.num_layers)
    shared = read_shared_size(config, experts)
    return with_experts(decoder, with_groups(config, experts), first=first, shared_size=shared)


def read_shared_size(config: JsonFields, experts: Experts) -> int:
    """Read how many experts all tokens share, which are one MLP; returns its size, 0 if there are none."""
    most = min(_MOST_SHARED, MOST_INTERMEDIATE // experts.size)
    has_field = "n_shared_experts" in config
    return (config.integer_or_zero("n_shared_experts", maximum=most) if has_field else 1) * experts.size


MTP = MtpNames(
    prefix="model.layers.{n}.",
    layer="model.layers.{n}.",
    others={
        "eh_proj.weight": "fc",
        "enorm.weight": "embedding_norm",
        "hnorm.weight": "hidden_norm",
        "shared_head.norm.weight": "final_norm",
    },
    copies=fields("embed_tokens.weight shared_head.head.weight"),  # DeepSeek-V3, arXiv 2412.19437, section 2.2
)
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
    "Glm4MoeForCausalLM": Architecture(
        model_type="glm4_moe",
        models="GLM 4.5, 4.5-Air, 4.6 and 4.7",
        features="experts that are scored one by one and chosen with a bias, beside one for all tokens; "
        "dense first layers; half of each head turns",
        read_config=_read_glm4_moe,
        fields=fields(
            "hidden_act attention_bias use_qk_norm n_routed_experts num_experts_per_tok",
            "n_shared_experts moe_intermediate_size norm_topk_prob routed_scaling_factor n_group topk_group",
            "first_k_dense_replace num_nextn_predict_layers num_mtp_layers",
        ),
        names=tensor_names.GLM4_MOE_NAMES,
        defaults={
            **{"rms_norm_eps": 1e-5, "hidden_act": "silu", "num_key_value_heads": 8, "num_experts_per_tok": 8},
            **{"n_routed_experts": 128, "moe_intermediate_size": 1408},
        },
        mtp=MTP,
    ),
}
