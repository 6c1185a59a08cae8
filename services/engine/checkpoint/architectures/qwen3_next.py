"""Mixtures of the gated delta rule: Qwen3-Next, and Qwen 3.5 and 3.6 with experts."""

from dataclasses import replace

from services.engine.checkpoint import tensor_names
from services.engine.checkpoint.architectures.architecture import Architecture, fields
from services.engine.checkpoint.architectures.mixture import read_experts, with_shared_expert
from services.engine.checkpoint.architectures.qwen3_5 import DEFAULTS, FIELDS, MTP, read_qwen3_5
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.files.json_fields import JsonFields


def _read_qwen3_next(config: JsonFields, context_length: int) -> ModelConfig:
    return _read_mixture(config, context_length, are_normalised=config.flag("norm_topk_prob", True))


def _read_qwen3_5_moe(config: JsonFields, context_length: int) -> ModelConfig:
    return _read_mixture(config, context_length, are_normalised=True)


def _read_mixture(config: JsonFields, context_length: int, *, are_normalised: bool) -> ModelConfig:
    """Read a decoder whose layers all have experts; `intermediate_size` would be of layers without."""
    experts = read_experts(config, size="moe_intermediate_size", are_normalised=are_normalised)
    decoder = read_qwen3_5(config.replaced({"intermediate_size": 1}), context_length)
    return with_shared_expert(config, replace(decoder, experts=experts))


_FIELDS = FIELDS | fields(
    "num_experts num_local_experts num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size"
)
_DEFAULTS = {
    **DEFAULTS,
    **{"hidden_size": 2048, "num_key_value_heads": 2},
    **{"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512},
}

QWEN3_NEXT = {
    "Qwen3NextForCausalLM": Architecture(
        model_type="qwen3_next",
        models="Qwen3-Next (80B-A3B), Qwen3-Coder-Next",
        features="as Qwen 3.5, with experts, and a gated expert shared by all tokens; fused tensors",
        read_config=_read_qwen3_next,
        fields=_FIELDS | {"norm_topk_prob"},
        names=tensor_names.QWEN3_NEXT_NAMES,
        stacked_names=tensor_names.STACKED_QWEN3_NEXT_NAMES,
        defaults={
            **_DEFAULTS,
            **{"vocab_size": 151_936, "num_hidden_layers": 48, "num_experts": 512, "num_experts_per_tok": 10},
        },
        norms_are_offsets=True,
        mtp=MTP,
    ),
    "Qwen3_5MoeForCausalLM": Architecture(
        model_type="qwen3_5_moe_text",
        models="Qwen 3.5 and 3.6 MoE (35B-A3B, 122B-A10B, 397B-A17B), without images",
        features="as Qwen 3.5, with experts, and a gated expert shared by all tokens",
        read_config=_read_qwen3_5_moe,
        fields=_FIELDS,
        names=tensor_names.QWEN3_5_MOE_NAMES,
        stacked_names=tensor_names.STACKED_QWEN3_5_MOE_NAMES,
        defaults={
            **_DEFAULTS,
            **{"vocab_size": 248_320, "num_hidden_layers": 40, "num_experts": 256, "num_experts_per_tok": 8},
        },
        norms_are_offsets=True,
        mtp=MTP,
    ),
}
