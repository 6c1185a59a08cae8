"""Attention to latent vectors, and experts: GLM 4.7 Flash, DeepSeek V2 and V3."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import MOST_HEAD_DIM, read_decoder
from services.engine.checkpoint.architectures.glm import MTP, SUM_OFFSET, read_shared_size
from services.engine.checkpoint.architectures.mixture import (
    read_experts,
    read_scored_experts,
    with_experts,
    with_groups,
)
from services.engine.checkpoint.architectures.rope import read_rope, read_score_scale
from services.engine.checkpoint.model_config import Experts, LatentAttention, ModelConfig
from services.engine.files.json_fields import JsonFields, shown

_UNIT = 32  # of the sizes of a head's parts, whose rows lie beside each other
_MOST_RANK = 1 << 14
_MOST_TURNING = 128
_NORM_EPS = 1e-6  # of the vectors in the middle, whatever rms_norm_eps says
_COUNT = "n_routed_experts"
_DENSE, _SPARSE = "dense", "sparse"


def _read_glm4_moe_lite(config: JsonFields, context_length: int) -> ModelConfig:
    decoder = _read_latent_decoder(config, context_length)
    return _with_experts(config, decoder, _read_scored(config), _read_num_dense(config, decoder.num_layers))


def _read_deepseek_v3(config: JsonFields, context_length: int) -> ModelConfig:
    config.choice("scoring_func", ("sigmoid",), "sigmoid")
    decoder = _read_latent_decoder(config, context_length)
    return _with_experts(config, decoder, _read_scored(config), _read_first(config, decoder.num_layers))


def _read_deepseek_v2(config: JsonFields, context_length: int) -> ModelConfig:
    config.choice("scoring_func", ("softmax",), "softmax")
    for field in ("norm_topk_prob", "mlp_bias"):
        if config.flag(field, False):
            raise config.error(field, "only false is supported")
    decoder = _read_latent_decoder(config, context_length)
    experts = read_experts(config, size="moe_intermediate_size", are_normalised=False, count=_COUNT)
    experts = replace(experts, weight_scale=config.number("routed_scaling_factor", 1.0))
    if config.choice("topk_method", ("greedy", "group_limited_greedy"), "greedy") != "greedy":
        experts = with_groups(config, experts)
    return _with_experts(config, decoder, experts, _read_first(config, decoder.num_layers))


def _read_latent_decoder(config: JsonFields, context_length: int) -> ModelConfig:
    """Read a decoder whose layers all attend to latent vectors."""
    if config.flag("attention_bias", False):
        raise config.error("attention_bias", "only false is supported")
    if not config.flag("rope_interleave", True):
        raise config.error("rope_interleave", "only true is supported")
    turning = _read_size(config, "qk_rope_head_dim", _MOST_TURNING)
    shape = LatentAttention(
        query_rank=config.integer_or_zero("q_lora_rank", maximum=_MOST_RANK),
        rank=_read_size(config, "kv_lora_rank"),
        turning=turning,
        key_dim=_read_size(config, "qk_nope_head_dim"),
        value_dim=_read_size(config, "v_head_dim"),
        norm_eps=_NORM_EPS,
    )
    decoder = read_decoder(config, context_length, shape.query_dim, (read_rope(config, turning, context_length),))
    return replace(
        decoder,
        layers=(shape,) * decoder.num_layers,
        query_scale=decoder.query_scale * read_score_scale(config),
    )


def _read_size(config: JsonFields, field: str, most: int = MOST_HEAD_DIM) -> int:
    size = config.integer(field, maximum=most)
    if size % _UNIT:
        raise config.error(field, f"must be a multiple of {_UNIT}, is {size}")
    return size


def _read_scored(config: JsonFields) -> Experts:
    """Read experts that are scored one by one, in groups."""
    config.choice("topk_method", ("noaux_tc",), "noaux_tc")
    experts = read_scored_experts(config, sum_offset=SUM_OFFSET, has_choice_bias=True, count=_COUNT)
    return with_groups(config, experts)


def _with_experts(config: JsonFields, decoder: ModelConfig, experts: Experts, first: int) -> ModelConfig:
    """Return the decoder with experts, beside one for all tokens, on the layers from `first` on."""
    return with_experts(decoder, experts, first=first, shared_size=read_shared_size(config, experts))


def _read_first(config: JsonFields, num_layers: int) -> int:
    """Read how many layers have no experts, where all after them do."""
    if (every := config.integer("moe_layer_freq", 1)) != 1:
        raise config.error("moe_layer_freq", f"only 1 is supported, is {every}")
    return config.integer("first_k_dense_replace", 0, minimum=0, maximum=num_layers)


def _read_num_dense(config: JsonFields, num_layers: int) -> int:
    """Read how many layers have no experts, which must be the first ones; by default it is one."""
    kinds = config.raw("mlp_layer_types")
    if kinds is None:
        return config.integer("first_k_dense_replace", 1, minimum=0, maximum=num_layers)
    num_dense = kinds.count(_DENSE) if isinstance(kinds, list) else 0
    if kinds != [_DENSE] * num_dense + [_SPARSE] * (num_layers - num_dense):
        problem = f"must be {num_layers} words, some {_DENSE!r} and then {_SPARSE!r}, is {shown(kinds)}"
        raise config.error("mlp_layer_types", problem)
    return num_dense


_COMMON = fields(
    "hidden_act attention_bias q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim qk_head_dim",
    "n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size norm_topk_prob routed_scaling_factor",
    "n_group topk_group topk_method first_k_dense_replace",
)
_OF_DEEPSEEK = _COMMON | fields("scoring_func moe_layer_freq ep_size aux_loss_alpha seq_aux")
_OF_MTP = fields("num_nextn_predict_layers num_mtp_layers")
_SIZES = {
    **{"hidden_act": "silu", "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
    **{"qk_nope_head_dim": 128, "v_head_dim": 128},
}

LATENT = {
    "Glm4MoeLiteForCausalLM": Architecture(
        model_type="glm4_moe_lite",
        models="GLM 4.7 Flash",
        features="attention to latent vectors; experts as those of GLM 4.5",
        read_config=_read_glm4_moe_lite,
        fields=_COMMON | _OF_MTP | fields("rope_interleave mlp_layer_types"),
        names=tensor_names.DEEPSEEK_V3_NAMES,
        defaults={
            **{"rms_norm_eps": 1e-5, "hidden_act": "silu", "num_experts_per_tok": 4, "n_routed_experts": 64},
            **{"moe_intermediate_size": 1536, "routed_scaling_factor": 1.8, "q_lora_rank": 768, "kv_lora_rank": 512},
            **{"qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256},
        },
        mtp=MTP,
    ),
    "DeepseekV2ForCausalLM": Architecture(
        model_type="deepseek_v2",
        models="DeepSeek V2, V2 Lite, Coder V2",
        features="attention to latent vectors; experts of the best groups, beside some for all tokens; "
        "dense first layers",
        read_config=_read_deepseek_v2,
        fields=_OF_DEEPSEEK | fields("mlp_bias"),
        names=tensor_names.DEEPSEEK_V2_NAMES,
        defaults={
            **{**_SIZES, "rms_norm_eps": 1e-6, "n_routed_experts": 64, "n_shared_experts": 2},
            "moe_intermediate_size": 1407,
        },
    ),
    "DeepseekV3ForCausalLM": Architecture(
        model_type="deepseek_v3",
        models="DeepSeek V3, V3.1, R1",
        features="attention to latent vectors; experts of the best groups, scored one by one and chosen with a bias, "
        "beside one for all tokens; dense first layers",
        read_config=_read_deepseek_v3,
        fields=_OF_DEEPSEEK | _OF_MTP | fields("rope_interleave"),
        names=tensor_names.DEEPSEEK_V3_NAMES,
        defaults={
            **{**_SIZES, "rms_norm_eps": 1e-6, "n_routed_experts": 256, "moe_intermediate_size": 2048},
            **{"routed_scaling_factor": 2.5, "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8},
            "first_k_dense_replace": 3,
        },
        mtp=MTP,
    ),
}
