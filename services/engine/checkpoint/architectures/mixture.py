"""Mixtures of experts: OLMoE, Qwen 3 MoE, Mixtral, Qwen 2 MoE, GPT-OSS; and what others read of their experts."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import MOST_INTERMEDIATE, read_plain_decoder
from services.engine.checkpoint.architectures.layer_kinds import (
    every_but,
    read_layer_types,
    read_layers,
    read_layers_alike,
)
from services.engine.checkpoint.model_config import Activation, Experts, ExpertScores, ModelConfig, QkNorm
from services.engine.files.json_fields import JsonFields

_MOST_EXPERTS = 1 << 10
_CLAMPED_SWIGLU = {"swiglu_limit": 7.0, "swiglu_alpha": 1.702}  # of all published models


def _read_olmoe(config: JsonFields, context_length: int) -> ModelConfig:
    has_bias = config.flag("attention_bias", False)
    return replace(
        _read_mixture(config, context_length, size="intermediate_size"),
        attention_bias=has_bias,
        output_bias=has_bias,
        qk_norm=QkNorm.FULL,
    )


def _read_qwen3_moe(config: JsonFields, context_length: int) -> ModelConfig:
    has_bias = config.flag("attention_bias", False)
    return replace(
        _read_mixture(config, context_length, size="moe_intermediate_size"),
        attention_bias=has_bias,
        output_bias=has_bias,
        qk_norm=QkNorm.HEAD,
    )


def _read_mixtral(config: JsonFields, context_length: int) -> ModelConfig:
    return replace(
        _read_mixture(config, context_length, size="intermediate_size", are_normalised=True),
        layers=read_layers_alike(config),
    )


def _read_qwen2_moe(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_mixture(config, context_length, size="moe_intermediate_size")
    return with_shared_expert(config, replace(decoder, attention_bias=config.flag("qkv_bias", True)))


def _read_gpt_oss(config: JsonFields, context_length: int) -> ModelConfig:
    for field, only in _CLAMPED_SWIGLU.items():
        if (value := config.number(field)) != only:
            raise config.error(field, f"only {only} is supported, is {value}")
    decoder = _read_mixture(config, context_length, size="intermediate_size", are_normalised=True, have_biases=True)
    types, has_bias = read_layer_types(config, every_but(2)), config.flag("attention_bias", True)
    return replace(
        decoder,
        activation=Activation.CLAMPED_SWIGLU,
        attention_bias=has_bias,
        output_bias=has_bias,
        attention_sinks=True,
        layers=read_layers(config, types),
    )


def _read_mixture(
    config: JsonFields,
    context_length: int,
    *,
    size: str,
    are_normalised: bool | None = None,
    have_biases: bool = False,
) -> ModelConfig:
    """Read a decoder whose layers have experts and no other MLP, and an expert's width in the field `size`."""
    if are_normalised is None:
        are_normalised = config.flag("norm_topk_prob", False)
    experts = read_experts(config, size=size, are_normalised=are_normalised, have_biases=have_biases)
    return replace(read_plain_decoder(config, context_length), intermediate_size=0, experts=experts)


def read_experts(
    config: JsonFields,
    *,
    size: str,
    are_normalised: bool,
    have_biases: bool = False,
    per_token: str = "num_experts_per_tok",
    count: str | None = None,
) -> Experts:
    """Read the number and the width of a layer's experts; raises CheckpointError for a bad field.

    `size` is the field of an expert's width, `per_token` of how many a token is sent to, and `count` of their number.
    `are_normalised` says whether the weights of a token's experts sum up to 1.
    """
    if count is None:  # in newer and older files
        count = "num_local_experts" if "num_local_experts" in config else "num_experts"
    number = config.integer(count, maximum=_MOST_EXPERTS)
    return Experts(
        count=number,
        per_token=config.integer(per_token, maximum=number),
        size=config.integer(size, maximum=MOST_INTERMEDIATE),
        are_normalised=are_normalised,
        have_biases=have_biases,
    )


def read_scored_experts(
    config: JsonFields, *, sum_offset: float, has_choice_bias: bool, count: str | None = None
) -> Experts:
    """Read experts that are scored by sigmoids, one by one; raises CheckpointError for a bad field."""
    experts = read_experts(
        config,
        size="moe_intermediate_size",
        are_normalised=config.flag("norm_topk_prob", True),
        count=count,
    )
    return replace(
        experts,
        scores=ExpertScores.SIGMOID,
        sum_offset=sum_offset,
        weight_scale=config.number("routed_scaling_factor", 1.0),
        has_choice_bias=has_choice_bias,
    )


def with_groups(config: JsonFields, experts: Experts) -> Experts:
    """Read how many groups of experts there are, and how many are considered for a token; raises CheckpointError."""
    groups = config.integer("n_group", 1, maximum=max(1, experts.count // 2))
    if experts.count % groups:
        raise config.error("n_group", f"must divide the number of experts, {experts.count}, is {groups}")
    chosen, size = config.integer("topk_group", 1, maximum=groups), experts.count // groups
    if experts.per_token > chosen * size:
        problem = f"leaves {chosen * size} experts, fewer than num_experts_per_tok {experts.per_token}"
        raise config.error("topk_group", problem)
    return replace(experts, groups=groups, groups_per_token=chosen)


def with_experts(decoder: ModelConfig, experts: Experts, *, first: int, shared_size: int = 0) -> ModelConfig:
    """Return the decoder with experts on the layers from `first` on, beside an MLP of `shared_size` if it is not 0.

    The layers before have the decoder's MLP.
    """
    dense = [replace(layer, mlp_size=decoder.intermediate_size, has_experts=False) for layer in decoder.layers[:first]]
    layers = (*dense, *decoder.layers[first:])
    return replace(decoder, layers=layers, intermediate_size=shared_size, experts=experts)


def with_shared_expert(config: JsonFields, decoder: ModelConfig) -> ModelConfig:
    """Return the mixture with an expert for all tokens, by a gate; raises CheckpointError for a bad size."""
    assert decoder.experts is not None
    size = config.integer("shared_expert_intermediate_size", maximum=MOST_INTERMEDIATE)
    return replace(decoder, intermediate_size=size, experts=replace(decoder.experts, has_shared_gate=True))


_COMMON = fields("hidden_act num_experts num_local_experts num_experts_per_tok")
_QWEN = _COMMON | fields("moe_intermediate_size norm_topk_prob sliding_window")  # without use_sliding_window it is none
_QWEN_DEFAULTS = {"rms_norm_eps": 1e-6, "hidden_act": "silu"}

MIXTURES = {
    "OlmoeForCausalLM": Architecture(
        model_type="olmoe",
        models="OLMoE",
        features="experts; norms over all heads of query and key",
        read_config=_read_olmoe,
        fields=_COMMON | fields("attention_bias norm_topk_prob"),
        names=tensor_names.OLMOE_NAMES,
        defaults={"rms_norm_eps": 1e-5, "hidden_act": "silu"},
    ),
    "Qwen3MoeForCausalLM": Architecture(
        model_type="qwen3_moe",
        models="Qwen 3 MoE (30B-A3B, 235B-A22B), Qwen 3 Coder",
        features="experts; norms of each query and key",
        read_config=_read_qwen3_moe,
        fields=_QWEN | {"attention_bias"},
        names=tensor_names.QWEN3_MOE_NAMES,
        defaults={**_QWEN_DEFAULTS, "num_key_value_heads": 4},
    ),
    "MixtralForCausalLM": Architecture(
        model_type="mixtral",
        models="Mixtral 8x7B and 8x22B",
        features="experts whose weights sum up to 1; a window on all layers",
        read_config=_read_mixtral,
        fields=_COMMON | {"sliding_window"},
        names=tensor_names.MIXTRAL_NAMES,
        defaults={
            **{"rms_norm_eps": 1e-5, "hidden_act": "silu", "num_key_value_heads": 8, "sliding_window": None},
            "rope_theta": 1_000_000.0,
        },
    ),
    "Qwen2MoeForCausalLM": Architecture(
        model_type="qwen2_moe",
        models="Qwen 1.5 MoE, Qwen 2 57B-A14B",
        features="experts, and a gated expert shared by all tokens; biases on query, key and value",
        read_config=_read_qwen2_moe,
        fields=_QWEN | fields("shared_expert_intermediate_size qkv_bias"),
        names=tensor_names.QWEN2_MOE_NAMES,
        defaults={**_QWEN_DEFAULTS, "num_key_value_heads": 16},
    ),
    "GptOssForCausalLM": Architecture(
        model_type="gpt_oss",
        models="GPT-OSS (20B, 120B)",
        features="experts with biases and clamped gates; a sink in each head's softmax; every other layer windowed",
        read_config=_read_gpt_oss,
        fields=_COMMON
        | fields("sliding_window layer_types attention_bias swiglu_limit swiglu_alpha")
        | fields("experts_per_token initial_context_length"),  # duplicates of other fields
        names=tensor_names.GPT_OSS_NAMES,
        defaults={
            **_CLAMPED_SWIGLU,
            **{"rms_norm_eps": 1e-5, "hidden_act": "silu", "num_key_value_heads": 8, "head_dim": 64},
            **{"sliding_window": 128, "rope_theta": 150_000.0},
            "rope_parameters": {
                **{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
                "original_max_position_embeddings": 4096,
            },
        },
        stacks_experts=True,
    ),
}
