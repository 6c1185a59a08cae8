"""Mixtures of experts: translates their own keys of a GGUF file to fields of config.json."""

from services.engine.checkpoint.gguf.hyperparameters import Fields, Hyperparameters
from services.engine.checkpoint.gguf.names import FIRST_QUERY_BIAS


def translate_experts(found: Hyperparameters) -> Fields:
    """Return the fields of all mixtures; the width of an expert has a key of its own except in OLMoE and Mixtral."""
    return {
        "hidden_act": "silu",
        "num_experts": found["expert_count"],
        "num_experts_per_tok": found["expert_used_count"],
    }


def translate_mixtral(found: Hyperparameters) -> Fields:
    return translate_experts(found) | {"sliding_window": found["attention.sliding_window"] or None}


def translate_olmoe(found: Hyperparameters) -> Fields:
    found.refuse_windows()
    return translate_experts(found) | {"attention_bias": FIRST_QUERY_BIAS in found.tensors, "norm_topk_prob": False}


def translate_qwen3_moe(found: Hyperparameters) -> Fields:
    own = {"moe_intermediate_size": found["expert_feed_forward_length"], "norm_topk_prob": True}
    return translate_olmoe(found) | own


def translate_qwen2_moe(found: Hyperparameters) -> Fields:
    found.refuse_windows()
    return translate_experts(found) | {
        "moe_intermediate_size": found["expert_feed_forward_length"],
        "shared_expert_intermediate_size": found["expert_shared_feed_forward_length"],
        "norm_topk_prob": False,
        "qkv_bias": FIRST_QUERY_BIAS in found.tensors,
    }


def translate_gpt_oss(found: Hyperparameters) -> Fields:
    """Return the fields of GPT-OSS; its YaRN does not truncate, for which the format has no key."""
    scaling, size = found.rope_scaling(), found["expert_feed_forward_length"]
    return translate_experts(found) | {
        "intermediate_size": found["feed_forward_length"] if size is None else size,
        "attention_bias": FIRST_QUERY_BIAS in found.tensors,
        "rope_scaling": scaling and scaling | {"truncate": False},
    }
