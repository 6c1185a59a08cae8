"""LFM2: short convolutions instead of attention on most layers; the size of the MLP follows a rule, or has experts."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.decoder_fields import (
    MOST_INTERMEDIATE,
    read_decoder,
    read_head_dim,
    read_num_layers,
)
from services.engine.checkpoint.architectures.layer_kinds import FULL, read_listed_types
from services.engine.checkpoint.architectures.mixture import read_scored_experts, with_experts
from services.engine.checkpoint.architectures.rope import read_rope
from services.engine.checkpoint.model_config import Attention, ModelConfig, QkNorm, ShortConvolution
from services.engine.files.json_fields import JsonFields, shown

CONV = "conv"
_FEWEST_TAPS, _MOST_TAPS = 2, 32
# Fields of the first published folders that transformers ignores: they must agree with the others.
_SAME_AS = {
    **dict.fromkeys(("block_dim", "conv_dim", "conv_dim_out"), "hidden_size"),
    **{"num_heads": "num_attention_heads", "block_norm_eps": "norm_eps"},
}
_MUST_BE_ON = ("block_use_swiglu", "use_pos_enc")
_SUM_OFFSET = 1e-6  # of the weights of a token's experts


def _read_lfm2(config: JsonFields, context_length: int) -> ModelConfig:
    config.choice("hidden_act", ("silu", "swish"), "silu")
    config = _with_later_names(config)
    head_dim, types = read_head_dim(config), _read_layer_types(config)
    rope = read_rope(config, head_dim, context_length)
    decoder = read_decoder(config, context_length, head_dim, (rope,), norm_eps="norm_eps")
    _check_labels(config)
    taps = config.integer("conv_L_cache", minimum=_FEWEST_TAPS, maximum=_MOST_TAPS)
    return replace(
        decoder,
        intermediate_size=_read_intermediate_size(config),
        qk_norm=QkNorm.HEAD,
        layers=tuple(ShortConvolution(taps=taps) if kind == CONV else Attention() for kind in types),
        conv_bias=config.flag("conv_bias", False),
    )


def _read_lfm2_moe(config: JsonFields, context_length: int) -> ModelConfig:
    """Read a mixture, whose first layers have an MLP of the size that the field says."""
    size = {"block_auto_adjust_ff_dim": False, "block_ff_dim": None}
    decoder = _read_lfm2(config.replaced(size), context_length)
    has_bias = config.flag("use_expert_bias", True)
    experts = read_scored_experts(config, sum_offset=_SUM_OFFSET, has_choice_bias=has_bias)
    return with_experts(
        decoder, experts, first=config.integer("num_dense_layers", minimum=0, maximum=decoder.num_layers)
    )


def _with_later_names(config: JsonFields) -> JsonFields:
    """Return the fields, with those that earlier folders name otherwise renamed, as transformers does."""
    earlier = {"intermediate_size": "block_ff_dim", "tie_word_embeddings": "tie_embedding"}
    named = {name: config.raw(other) for name, other in earlier.items() if other in config}
    return config.replaced({"hidden_act": "silu"} | named)


def _read_layer_types(config: JsonFields) -> list[str]:
    """Read the kind of each layer; earlier folders list the layers with attention instead.  # [layers]"""
    num_layers, attending = read_num_layers(config), config.raw("full_attn_idxs")
    if attending is not None:
        if not isinstance(attending, list) or any(type(index) is not int for index in attending):
            raise config.error("full_attn_idxs", f"must be a list of layers, is {shown(attending)}")
        if bad := [index for index in attending if not 0 <= index < num_layers]:
            raise config.error("full_attn_idxs", f"has {shown(bad[0])}; there are {num_layers} layers")
    if (types := read_listed_types(config, FULL, CONV)) is None:
        return [FULL if attending is None or layer in attending else CONV for layer in range(num_layers)]
    listed = [layer for layer, kind in enumerate(types) if kind == FULL]
    if attending is not None and sorted({*attending}) != listed:
        raise config.error("full_attn_idxs", f"must be the layers of {FULL} in layer_types, is {shown(attending)}")
    return types


def _read_intermediate_size(config: JsonFields) -> int:
    """Read the MLP's size: two thirds of the field, times a factor, rounded up to a multiple."""
    size = config.integer("intermediate_size", maximum=MOST_INTERMEDIATE)
    if not config.flag("block_auto_adjust_ff_dim", True):
        return size
    size = int(2 * size / 3)
    if factor := config.number_or_off("block_ffn_dim_multiplier"):
        multiple = config.integer("block_multiple_of", maximum=MOST_INTERMEDIATE)
        size = multiple * -(-int(factor * size) // multiple)
    if not 1 <= size <= MOST_INTERMEDIATE:
        raise config.error("intermediate_size", f"leaves an MLP of {size}; it must be 1 to {MOST_INTERMEDIATE}")
    return size


def _check_labels(config: JsonFields) -> None:
    """Raise CheckpointError if a field that transformers ignores contradicts the others."""
    for name, other in _SAME_AS.items():
        if name in config and config.raw(name) != config.raw(other):
            raise config.error(name, f"must be {other}, {config.raw(other)}, is {shown(config.raw(name))}")
    for name in _MUST_BE_ON:
        if not config.flag(name, True):
            raise config.error(name, "only true is supported")


_DEFAULTS = {
    **{"norm_eps": 1e-5, "conv_L_cache": 3, "tie_word_embeddings": True, "vocab_size": 65_536},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
    **{"max_position_embeddings": 128_000, "rope_theta": 1_000_000.0},
}
_FIELDS = fields("norm_eps hidden_act conv_L_cache conv_bias layer_types tie_embedding", *_SAME_AS, *_MUST_BE_ON)
LFM2 = {
    "Lfm2ForCausalLM": Architecture(
        model_type="lfm2",
        models="LFM2 (350M, 700M, 1.2B, 2.6B), LFM2.5 (1.2B)",
        features="short convolutions instead of attention on most layers; norms of each query and key",
        read_config=_read_lfm2,
        fields=_FIELDS
        | fields(
            "full_attn_idxs block_ff_dim block_multiple_of block_ffn_dim_multiplier block_auto_adjust_ff_dim",
            "block_mlp_init_scale block_out_init_scale block_use_xavier_init conv_use_xavier_init",
        ),
        names=tensor_names.LFM2_NAMES,
        defaults={
            **_DEFAULTS,
            **{"hidden_size": 2560, "intermediate_size": 12_288},
            **{"block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0},
        },
    ),
    "Lfm2MoeForCausalLM": Architecture(
        model_type="lfm2_moe",
        models="LFM2 and LFM2.5 (8B-A1B), LFM2 (24B-A2B)",
        features="as LFM2, with experts that are scored one by one and chosen with a bias; dense first layers",
        read_config=_read_lfm2_moe,
        fields=_FIELDS
        | fields(
            "full_attn_idxs num_experts num_experts_per_tok moe_intermediate_size norm_topk_prob num_dense_layers",
            "routed_scaling_factor use_expert_bias",
        ),
        names=tensor_names.LFM2_MOE_NAMES,
        defaults={
            **_DEFAULTS,
            **{"hidden_size": 2048, "intermediate_size": 7168, "moe_intermediate_size": 1792},
            **{"num_experts": 32, "num_experts_per_tok": 4, "num_dense_layers": 2},
        },
    ),
}
