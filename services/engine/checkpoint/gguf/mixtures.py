"""Translates the hyperparameters of mixtures of experts, and of models with states, to the fields of a config.json."""

from services.engine.checkpoint.gguf.hyperparameters import MOST_LISTED, Fields, Hyperparameters
from services.engine.checkpoint.gguf.names import FIRST_QUERY_BIAS, FIRST_QUERY_NORM, KEYS_AND_VALUES
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import is_number, shown


def translate_qwen3_5(found: Hyperparameters) -> Fields:
    """Return the fields of Qwen 3.5; raises CheckpointError for a bad key."""
    return {
        "hidden_act": "silu",
        "num_hidden_layers": _num_layers(found),
        "full_attention_interval": found["full_attention_interval"],
        "linear_conv_kernel_dim": found["ssm.conv_kernel"],
        "linear_key_head_dim": found["ssm.state_size"],
        "linear_num_key_heads": found["ssm.group_count"],
        "linear_num_value_heads": found["ssm.time_step_rank"],
        "linear_value_head_dim": _size_of_values(found),
    }


def _num_layers(found: Hyperparameters) -> object:
    """Return the number of layers; those that predict further tokens count as blocks, too."""
    blocks = found["block_count"]
    fewer = min(blocks, MOST_LISTED) if isinstance(blocks, int) else 0
    further = found.index("nextn_predict_layers", fewer) if fewer > 0 else None
    return blocks - further if isinstance(blocks, int) and further else blocks


def _size_of_values(found: Hyperparameters) -> object:
    inner, heads = found["ssm.inner_size"], found["ssm.time_step_rank"]
    if not isinstance(inner, int) or not isinstance(heads, int) or heads < 1:
        return inner
    if inner % heads:
        raise found.error("ssm.inner_size", f"must be a multiple of ssm.time_step_rank, {heads}, is {inner}")
    return inner // heads


def _translate_experts(found: Hyperparameters, *, count: str = "num_experts") -> Fields:
    """Return the fields of all mixtures; the width of an expert has a key of its own except in OLMoE and Mixtral.

    `count` is the field of the number of experts.
    """
    return {
        "hidden_act": "silu",
        count: found["expert_count"],
        "num_experts_per_tok": found["expert_used_count"],
    }


def translate_mixtral(found: Hyperparameters) -> Fields:
    """Return the fields of Mixtral."""
    return _translate_experts(found) | {"sliding_window": found["attention.sliding_window"] or None}


def translate_olmoe(found: Hyperparameters) -> Fields:
    """Return the fields of OLMoE; raises CheckpointError for a window."""
    found.refuse_windows()
    return _translate_experts(found) | {"attention_bias": FIRST_QUERY_BIAS in found.tensors, "norm_topk_prob": False}


def translate_qwen2_moe(found: Hyperparameters) -> Fields:
    """Return the fields of Qwen 2 MoE; raises CheckpointError for a window."""
    found.refuse_windows()
    return _translate_experts(found) | {
        "moe_intermediate_size": found["expert_feed_forward_length"],
        "shared_expert_intermediate_size": found["expert_shared_feed_forward_length"],
        "norm_topk_prob": False,
        "qkv_bias": FIRST_QUERY_BIAS in found.tensors,
    }


def translate_qwen3_moe(found: Hyperparameters) -> Fields:
    """Return the fields of Qwen 3 MoE; raises CheckpointError for a window."""
    own = {"moe_intermediate_size": found["expert_feed_forward_length"], "norm_topk_prob": True}
    return translate_olmoe(found) | own


def translate_qwen3_5_moe(found: Hyperparameters) -> Fields:
    """Return the fields of the mixtures of Qwen 3.5 and Qwen3-Next; llama.cpp always normalises their experts."""
    return translate_qwen3_5(found) | {
        **_translate_experts(found),
        "moe_intermediate_size": found["expert_feed_forward_length"],
        "shared_expert_intermediate_size": found["expert_shared_feed_forward_length"],
    }


def translate_gpt_oss(found: Hyperparameters) -> Fields:
    """Return the fields of GPT-OSS; its YaRN does not truncate, for which the format has no key."""
    scaling, size = found.rope_scaling(), found["expert_feed_forward_length"]
    return _translate_experts(found) | {
        "intermediate_size": found["feed_forward_length"] if size is None else size,
        "attention_bias": FIRST_QUERY_BIAS in found.tensors,
        "rope_scaling": scaling and scaling | {"truncate": False},
    }


def translate_scored_experts(
    found: Hyperparameters, *, are_normalised: bool = True, count: str = "num_experts"
) -> Fields:
    """Return the fields of experts that are scored by sigmoids; `count` is the field of their number.

    `are_normalised` is llama.cpp's default for files that do not say so.
    """
    scale, normalises = found["expert_weights_scale"], found["expert_weights_norm"]
    return _translate_experts(found, count=count) | {
        "moe_intermediate_size": found["expert_feed_forward_length"],
        "norm_topk_prob": are_normalised if normalises is None else normalises,
        "routed_scaling_factor": 1.0 if scale in (None, 0) else scale,
    }


def translate_deepseek_v2(found: Hyperparameters) -> Fields:
    """Return the fields of DeepSeek V2; raises CheckpointError for a bad key."""
    fields = translate_latents(found)
    return fields | {"topk_method": "greedy" if fields["n_group"] == 1 else "group_limited_greedy"}


def translate_latents(found: Hyperparameters) -> Fields:
    """Return the fields of attention to latent vectors, and of its experts: those of DeepSeek V3 and GLM 4.7 Flash.

    The width of a position's row is that of keys, and the vector of values is a part of it. Files say how scores grow
    beside YaRN by a tenth of its factor, which is that of cosine and sine too. Raises CheckpointError for a bad key.
    """
    if KEYS_AND_VALUES in found.tensors:
        problem = "is of an older conversion, which is not supported: convert the model with a newer llama.cpp"
        raise CheckpointError(f"{found.metadata.path}: tensor {KEYS_AND_VALUES!r} {problem}")
    turning, key_dim = found["rope.dimension_count"], found["attention.key_length_mla"]
    if not isinstance(turning, int) or not isinstance(key_dim, int) or key_dim <= turning:
        problem = f"must be a whole number above rope.dimension_count, {shown(turning)}, is {shown(key_dim)}"
        raise found.error("attention.key_length_mla", problem)
    scaling, growth = found.rope_scaling(), found["rope.scaling.yarn_log_multiplier"]
    if scaling and growth is not None:
        if not is_number(growth) or growth < 0:
            raise found.error("rope.scaling.yarn_log_multiplier", f"must be a number from 0 on, is {shown(growth)}")
        scaling |= dict.fromkeys(("mscale", "mscale_all_dim"), round(10 * growth, 6))
    return _translate_scored_groups(found) | {
        "q_lora_rank": found["attention.q_lora_rank"],
        "kv_lora_rank": found["attention.kv_lora_rank"],
        "qk_rope_head_dim": turning,
        "qk_nope_head_dim": key_dim - turning,
        "v_head_dim": found["attention.value_length_mla"],
        "num_key_value_heads": found["attention.head_count"],
        "head_dim": None,
        "partial_rotary_factor": None,
        "rope_scaling": scaling,
    }


def translate_glm4_moe(found: Hyperparameters) -> Fields:
    """Return the fields of GLM 4.5 to 4.7; raises CheckpointError for a bad key."""
    return _translate_scored_groups(found) | {
        "attention_bias": FIRST_QUERY_BIAS in found.tensors,
        "use_qk_norm": FIRST_QUERY_NORM in found.tensors,
    }


def _translate_scored_groups(found: Hyperparameters) -> Fields:
    """Return the fields of experts in groups, beside some for all tokens, after layers without."""
    dense, shared = found["leading_dense_block_count"], found["expert_shared_count"]
    groups, chosen = found["expert_group_count"], found["expert_group_used_count"]
    if groups is None:
        groups, chosen = _GROUPS.get((found["attention.kv_lora_rank"], found["expert_count"]), (None, None))
    return translate_scored_experts(found, are_normalised=False, count="n_routed_experts") | {
        "num_hidden_layers": _num_layers(found),
        "n_shared_experts": 0 if shared is None else shared,
        "first_k_dense_replace": 0 if dense is None else dense,
        "n_group": 1 if groups in (None, 0) else groups,
        "topk_group": 1 if chosen in (None, 0) else chosen,
    }


_GROUPS: dict[tuple[object, object], tuple[int, int]] = {(512, 160): (8, 3), (512, 256): (8, 4)}
"""Of DeepSeek V2 and V3, by their latent rank and experts, for files from before there were keys for them."""
