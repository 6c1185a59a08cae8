"""Checks that no field of a config.json that changes the computation is ignored.

For a model type, transformers reads few fields that we do not: those must have a value that changes nothing, or they
are refused. Fields that only other model types have are refused as well: they are signs of a folder with a wrong model
type. The remaining fields are about training, labels or other programs. Fields in none of the lists here are named in
one warning.
"""

import logging
from collections.abc import Collection

from services.engine.files.json_fields import JsonFields, shown

logger = logging.getLogger(__name__)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CARRIED_OUT = _names("""
    architectures compression_config eos_token_id head_dim hidden_size intermediate_size
    max_position_embeddings model_type num_attention_heads num_hidden_layers num_key_value_heads
    original_max_position_embeddings partial_rotary_factor quantization_config rms_norm_eps
    rope_parameters rope_scaling rope_theta tie_word_embeddings vocab_size
""")
_HARMLESS = _names("""
    attention_bias attention_dropout attn_implementation _attn_implementation _attn_implementation_autoset
    attn_pdrop auto_map bos_token_id cache_implementation chunk_size_feed_forward _commit_hash dropout dtype
    embd_pdrop embedding_dropout finetuning_task _from_model_config gradient_checkpointing hidden_dropout id2label
    initializer_range is_decoder label2id max_window_layers model_max_length _name_or_path name_or_path num_labels
    output_attentions output_hidden_states output_router_logits pad_token_id prefix pretraining_tp problem_type
    resid_pdrop residual_dropout return_dict router_aux_loss_coef router_jitter_noise sep_token_id
    _sliding_window_pattern task_specific_params
    tf_legacy_loss tokenizer_class torch_dtype torchscript transformers.js_config transformers_version
    unk_token_id unsloth_fixed unsloth_version use_bfloat16 use_cache
""")
_MUST_BE_ON = _names("""
    is_causal scale_attn_weights use_rmsnorm
""")
_MUST_BE_1 = _names("""
    attention_in_multiplier attention_out_multiplier attention_value_scale decoder_sparse_step embedding_multiplier
    full_attn_mod interpolate_factor key_multiplier lm_head_multiplier logit_scale logits_mup_width_multiplier
    logits_scaling mlp_multipliers mup_width_multiplier n_group residual_multiplier rope_percent rope_ratio
    rotary_pct routed_scaling_factor scale_depth scale_emb topk_group
""")
_MUST_BE_OFF = _names("""
    add_cross_attention add_qkv_bias alibi attention_chunk_size attention_k_eq_v attention_logit_cap
    attention_multiplier attention_out_bias attn_logit_softcapping attn_scale attn_temperature_tuning block_ff_dim
    clip_qkv cross_attention_hidden_size cross_attention_layers enable_moe_block final_logit_softcapping
    first_k_dense_replace full_attn_idxs gate_soft_cap global_attn_every_n_layers global_head_dim
    hidden_size_per_layer_input hybrid_override_pattern is_encoder_decoder is_heterogeneous kv_lora_rank
    layer_rope_theta layers_block_type lm_head_bias local_rope_theta logits_soft_cap mlp_bias mlp_gate_softcap
    mlp_only_layers mlp_up_softcap moe_intermediate_size mup_enabled n_routed_experts n_shared_experts
    no_rope_layer_interval no_rope_layers nope_layer_interval num_dense_layers num_experts num_experts_per_tok
    num_global_key_value_heads num_kv_shared_layers num_local_experts num_nextn_predict_layers output_logit_soft_cap
    parallel_attn per_layer_config q_lora_rank qk_l2_clip_threshold qk_layernorm qk_norm qkv_bias
    query_pre_attn_scalar rescale_every residual_weight rope_interleave rope_interleaved rope_local_base_freq
    rotary_dim scale_attn_by_inverse_layer_idx scale_embedding scale_embeddings sliding_window
    sliding_window_pattern sliding_window_size softmax_scale swa_head_dim swiglu_limit use_bias
    use_bidirectional_attention use_double_wide_mlp use_gated_norm use_mem_rope use_mrope use_parallel_residual
    use_post_norm use_qk_norm use_qkv_bias use_sandwich_norm use_sliding_window v_head_dim
""")


def check_fields(config: JsonFields, carried_out: frozenset[str]) -> None:
    """Raise CheckpointError for a field that would change the computation and is not implemented.

    `carried_out` are the fields that the architecture implements beside those that all have.
    """
    known = _CARRIED_OUT | carried_out
    for name in config:
        if name not in known:
            _check_neutral(config, name)
    _check_layer_types(config, known)


def warn_of_unknown_fields(config: JsonFields, carried_out: frozenset[str]) -> None:
    """Log one line that names the fields in none of the lists here."""
    known = _CARRIED_OUT | carried_out
    listed = known | _HARMLESS | _MUST_BE_ON | _MUST_BE_1 | _MUST_BE_OFF | {"layer_types"}
    if unknown := sorted(name for name in config if name not in listed):
        logger.warning("%s: unknown fields, which are ignored: %s", config.where, shown(unknown))


def _check_neutral(config: JsonFields, name: str) -> None:
    value = config.raw(name)
    if name in _MUST_BE_ON and value is not True:
        raise config.error(name, f"only true is supported, is {shown(value)}")
    if name in _MUST_BE_1 and value not in (1, [1, 1]):
        raise config.error(name, f"only 1 is supported, is {shown(value)}")
    if name in _MUST_BE_OFF and value:
        raise config.error(name, f"only null, false or 0 is supported here, is {shown(value)}")


def _check_layer_types(config: JsonFields, known: Collection[str]) -> None:
    """Raise CheckpointError if an architecture without windows has layer types other than full attention."""
    types = config.raw("layer_types")
    if "layer_types" in known or types is None:
        return
    if not isinstance(types, list) or any(kind != "full_attention" for kind in types):
        raise config.error("layer_types", f"only full_attention is supported, is {shown(types)}")
