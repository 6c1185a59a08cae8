"""Tensor names: the names of weights in the checkpoints of each architecture.

A table maps a tensor's name in the file to ours. {i} stands for the layer, {d} for a layer without experts, {m} for
one with experts, {c} for one with compressed queries and {w} for one without, {e} for an expert, {t} for a tap of a
convolution, {h} for a head of queries, {k} for a head of keys and {f} for a feature of an attached drafter. A tensor
that holds the rows of several of our weights maps to all of them in order, separated by spaces. A letter that only our
name has means that the tensor holds all of that kind, one below the other.
"""

_ENDS = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "final_norm",
    "lm_head.weight": "lm_head",
}
_ATTENTION = {
    "model.layers.{i}.self_attn.q_proj.weight": "layers.{i}.q",
    "model.layers.{i}.self_attn.k_proj.weight": "layers.{i}.k",
    "model.layers.{i}.self_attn.v_proj.weight": "layers.{i}.v",
    "model.layers.{i}.self_attn.o_proj.weight": "layers.{i}.o",
    "model.layers.{i}.self_attn.q_proj.bias": "layers.{i}.q_bias",
    "model.layers.{i}.self_attn.k_proj.bias": "layers.{i}.k_bias",
    "model.layers.{i}.self_attn.v_proj.bias": "layers.{i}.v_bias",
    "model.layers.{i}.self_attn.o_proj.bias": "layers.{i}.o_bias",
}
_FUSED_ATTENTION = {
    "model.layers.{i}.self_attn.qkv_proj.weight": "layers.{i}.q layers.{i}.k layers.{i}.v",
    "model.layers.{i}.self_attn.o_proj.weight": "layers.{i}.o",
}
_QK_NORMS = {
    "model.layers.{i}.self_attn.q_norm.weight": "layers.{i}.q_norm",
    "model.layers.{i}.self_attn.k_norm.weight": "layers.{i}.k_norm",
}
_MLP = {
    "model.layers.{i}.mlp.gate_proj.weight": "layers.{i}.gate",
    "model.layers.{i}.mlp.up_proj.weight": "layers.{i}.up",
    "model.layers.{i}.mlp.down_proj.weight": "layers.{i}.down",
    "model.layers.{i}.mlp.gate_proj.bias": "layers.{i}.gate_bias",
    "model.layers.{i}.mlp.up_proj.bias": "layers.{i}.up_bias",
    "model.layers.{i}.mlp.down_proj.bias": "layers.{i}.down_bias",
}
_PLAIN_MLP = {
    "model.layers.{i}.mlp.c_fc.weight": "layers.{i}.up",
    "model.layers.{i}.mlp.c_proj.weight": "layers.{i}.down",
    "model.layers.{i}.mlp.c_fc.bias": "layers.{i}.up_bias",
    "model.layers.{i}.mlp.c_proj.bias": "layers.{i}.down_bias",
}
_ROUTER = {
    "model.layers.{m}.mlp.gate.weight": "layers.{m}.router",
}
_EXPERTS = {
    "model.layers.{m}.mlp.experts.{e}.gate_proj.weight": "layers.{m}.experts.{e}.gate",
    "model.layers.{m}.mlp.experts.{e}.up_proj.weight": "layers.{m}.experts.{e}.up",
    "model.layers.{m}.mlp.experts.{e}.down_proj.weight": "layers.{m}.experts.{e}.down",
}
_STACKED_EXPERTS = {
    "model.layers.{m}.mlp.experts.gate_up_proj": "layers.{m}.experts.{e}.gate layers.{m}.experts.{e}.up",
    "model.layers.{m}.mlp.experts.down_proj": "layers.{m}.experts.{e}.down",
}
_SHARED_EXPERT = {
    "model.layers.{i}.mlp.shared_expert.gate_proj.weight": "layers.{i}.gate",
    "model.layers.{i}.mlp.shared_expert.up_proj.weight": "layers.{i}.up",
    "model.layers.{i}.mlp.shared_expert.down_proj.weight": "layers.{i}.down",
    "model.layers.{i}.mlp.shared_expert_gate.weight": "layers.{i}.shared_gate",
}
_DENSE_MLP = {
    "model.layers.{d}.mlp.gate_proj.weight": "layers.{d}.gate",
    "model.layers.{d}.mlp.up_proj.weight": "layers.{d}.up",
    "model.layers.{d}.mlp.down_proj.weight": "layers.{d}.down",
}
_CHOSEN_BY_BIAS = {
    "model.layers.{m}.mlp.gate.weight": "layers.{m}.router",
    "model.layers.{m}.mlp.gate.e_score_correction_bias": "layers.{m}.choice_bias",
}
_SHARED_EXPERTS = {
    "model.layers.{m}.mlp.shared_experts.gate_proj.weight": "layers.{m}.gate",
    "model.layers.{m}.mlp.shared_experts.up_proj.weight": "layers.{m}.up",
    "model.layers.{m}.mlp.shared_experts.down_proj.weight": "layers.{m}.down",
}
_MIXTRAL_EXPERTS = {
    "model.layers.{m}.block_sparse_moe.gate.weight": "layers.{m}.router",
    "model.layers.{m}.block_sparse_moe.experts.{e}.w1.weight": "layers.{m}.experts.{e}.gate",
    "model.layers.{m}.block_sparse_moe.experts.{e}.w3.weight": "layers.{m}.experts.{e}.up",
    "model.layers.{m}.block_sparse_moe.experts.{e}.w2.weight": "layers.{m}.experts.{e}.down",
}
_GPT_OSS_EXPERTS = _STACKED_EXPERTS | {
    "model.layers.{i}.self_attn.sinks": "layers.{i}.sinks",
    "model.layers.{m}.mlp.router.weight": "layers.{m}.router",
    "model.layers.{m}.mlp.router.bias": "layers.{m}.router_bias",
    "model.layers.{m}.mlp.experts.gate_up_proj_bias": "layers.{m}.experts.{e}.gate_bias layers.{m}.experts.{e}.up_bias",
    "model.layers.{m}.mlp.experts.down_proj_bias": "layers.{m}.experts.{e}.down_bias",
}
_FUSED_MLP = {
    "model.layers.{i}.mlp.gate_up_proj.weight": "layers.{i}.gate layers.{i}.up",
    "model.layers.{i}.mlp.down_proj.weight": "layers.{i}.down",
}
_PRE_NORMS = {
    "model.layers.{i}.input_layernorm.weight": "layers.{i}.attention_norm",
    "model.layers.{i}.post_attention_layernorm.weight": "layers.{i}.mlp_norm",
}
_NORM_BIASES = {
    "model.norm.bias": "final_norm_bias",
    "model.layers.{i}.input_layernorm.bias": "layers.{i}.attention_norm_bias",
    "model.layers.{i}.post_attention_layernorm.bias": "layers.{i}.mlp_norm_bias",
}
_NORMS_OF_EACH_HEAD = {
    "model.layers.{i}.self_attn.q_layernorm.norms.{h}.weight": "layers.{i}.q_norm.{h}",
    "model.layers.{i}.self_attn.k_layernorm.norms.{k}.weight": "layers.{i}.k_norm.{k}",
}
_NORMS_OF_ALL_HEADS = {
    "model.layers.{i}.self_attn.q_norm.weight": "layers.{i}.q_norm.{h}",
    "model.layers.{i}.self_attn.k_norm.weight": "layers.{i}.k_norm.{k}",
}
_POST_NORMS = {
    "model.layers.{i}.post_attention_layernorm.weight": "layers.{i}.post_attention_norm",
    "model.layers.{i}.post_feedforward_layernorm.weight": "layers.{i}.post_mlp_norm",
}
_PRE_AND_POST_NORMS = _POST_NORMS | {
    "model.layers.{i}.input_layernorm.weight": "layers.{i}.attention_norm",
    "model.layers.{i}.pre_feedforward_layernorm.weight": "layers.{i}.mlp_norm",
}
_GLM4_NORMS = {
    "model.layers.{i}.input_layernorm.weight": "layers.{i}.attention_norm",
    "model.layers.{i}.post_self_attn_layernorm.weight": "layers.{i}.post_attention_norm",
    "model.layers.{i}.post_attention_layernorm.weight": "layers.{i}.mlp_norm",
    "model.layers.{i}.post_mlp_layernorm.weight": "layers.{i}.post_mlp_norm",
}
_LFM2_ATTENTION = {
    "model.layers.{i}.self_attn.q_proj.weight": "layers.{i}.q",
    "model.layers.{i}.self_attn.k_proj.weight": "layers.{i}.k",
    "model.layers.{i}.self_attn.v_proj.weight": "layers.{i}.v",
    "model.layers.{i}.self_attn.out_proj.weight": "layers.{i}.o",
    "model.layers.{i}.self_attn.q_layernorm.weight": "layers.{i}.q_norm",
    "model.layers.{i}.self_attn.k_layernorm.weight": "layers.{i}.k_norm",
}
_CONVOLUTION = {
    "model.layers.{i}.conv.in_proj.weight": "layers.{i}.conv_in",
    "model.layers.{i}.conv.conv.weight": "layers.{i}.conv.{t}",
    "model.layers.{i}.conv.out_proj.weight": "layers.{i}.conv_out",
    "model.layers.{i}.conv.in_proj.bias": "layers.{i}.conv_in_bias",
    "model.layers.{i}.conv.conv.bias": "layers.{i}.conv_bias",
    "model.layers.{i}.conv.out_proj.bias": "layers.{i}.conv_out_bias",
}
_GATED_ATTENTION = {
    "model.layers.{i}.self_attn.q_proj.weight": "layers.{i}.q layers.{i}.q_gate",
    "model.layers.{i}.self_attn.k_proj.weight": "layers.{i}.k",
    "model.layers.{i}.self_attn.v_proj.weight": "layers.{i}.v",
    "model.layers.{i}.self_attn.o_proj.weight": "layers.{i}.o",
}
_DELTA_INPUTS = {
    "model.layers.{i}.linear_attn.in_proj_qkv.weight": "layers.{i}.delta_qkv",
    "model.layers.{i}.linear_attn.in_proj_z.weight": "layers.{i}.delta_z",
    "model.layers.{i}.linear_attn.in_proj_b.weight": "layers.{i}.delta_b",
    "model.layers.{i}.linear_attn.in_proj_a.weight": "layers.{i}.delta_a",
}
_PACKED_DELTA_INPUTS = {
    "model.layers.{i}.linear_attn.in_proj_qkvz.weight": "layers.{i}.delta_qkv layers.{i}.delta_z",
    "model.layers.{i}.linear_attn.in_proj_ba.weight": "layers.{i}.delta_b layers.{i}.delta_a",
}
_GATED_DELTA = {
    "model.layers.{i}.linear_attn.conv1d.weight": "layers.{i}.delta_conv.{t}",
    "model.layers.{i}.linear_attn.A_log": "layers.{i}.delta_decay",
    "model.layers.{i}.linear_attn.dt_bias": "layers.{i}.delta_decay_bias",
    "model.layers.{i}.linear_attn.norm.weight": "layers.{i}.delta_scale",
    "model.layers.{i}.linear_attn.out_proj.weight": "layers.{i}.delta_out",
}
_LFM2_MLP = {
    "model.layers.{i}.feed_forward.w1.weight": "layers.{i}.gate",
    "model.layers.{i}.feed_forward.w3.weight": "layers.{i}.up",
    "model.layers.{i}.feed_forward.w2.weight": "layers.{i}.down",
    "model.layers.{i}.operator_norm.weight": "layers.{i}.attention_norm",
    "model.layers.{i}.ffn_norm.weight": "layers.{i}.mlp_norm",
}

_ROUTER_OF_GEMMA4 = {
    "model.layers.{m}.router.proj.weight": "layers.{m}.router",
    "model.layers.{m}.router.scale": "layers.{m}.router_norm",
    "model.layers.{m}.router.per_expert_scale": "layers.{m}.expert_scales",
    "model.layers.{m}.pre_feedforward_layernorm_2.weight": "layers.{m}.expert_norm",
    "model.layers.{m}.post_feedforward_layernorm_1.weight": "layers.{m}.post_dense_norm",
    "model.layers.{m}.post_feedforward_layernorm_2.weight": "layers.{m}.post_expert_norm",
}
_LFM2_EXPERTS = {
    "model.layers.{m}.feed_forward.gate.weight": "layers.{m}.router",
    "model.layers.{m}.feed_forward.expert_bias": "layers.{m}.choice_bias",
    "model.layers.{m}.feed_forward.experts.{e}.w1.weight": "layers.{m}.experts.{e}.gate",
    "model.layers.{m}.feed_forward.experts.{e}.w3.weight": "layers.{m}.experts.{e}.up",
    "model.layers.{m}.feed_forward.experts.{e}.w2.weight": "layers.{m}.experts.{e}.down",
}

_EAGLE3_ENDS = {
    "embed_tokens.weight": "embedding",
    "fc.weight": "fc",
    "input_norm.weight": "feature_norm",
    "fc_norm.{f}.weight": "feature_norm.{f}",
    "norm.weight": "final_norm",
    "lm_head.weight": "lm_head",
}

LLAMA_NAMES = _ENDS | _ATTENTION | _MLP | _PRE_NORMS
PHI3_NAMES = _ENDS | _FUSED_ATTENTION | _FUSED_MLP | _PRE_NORMS
QWEN3_NAMES = LLAMA_NAMES | _QK_NORMS
OLMOE_NAMES = QWEN3_MOE_NAMES = _ENDS | _ATTENTION | _QK_NORMS | _ROUTER | _EXPERTS | _PRE_NORMS
QWEN2_MOE_NAMES = _ENDS | _ATTENTION | _ROUTER | _EXPERTS | _SHARED_EXPERT | _PRE_NORMS
MIXTRAL_NAMES = _ENDS | _ATTENTION | _MIXTRAL_EXPERTS | _PRE_NORMS
GPT_OSS_NAMES = _ENDS | _ATTENTION | _GPT_OSS_EXPERTS | _PRE_NORMS
GEMMA2_NAMES = _ENDS | _ATTENTION | _MLP | _PRE_AND_POST_NORMS
GEMMA3_NAMES = GEMMA2_NAMES | _QK_NORMS
_OF_GEMMA4 = (GEMMA3_NAMES | _ROUTER_OF_GEMMA4) | {
    "model.embed_tokens_per_layer.weight": "layer_embedding",
    "model.per_layer_model_projection.weight": "layer_projection",
    "model.per_layer_projection_norm.weight": "layer_input_norm",
    "model.layers.{i}.layer_scalar": "layers.{i}.scale",
    "model.layers.{i}.per_layer_input_gate.weight": "layers.{i}.input_gate",
    "model.layers.{i}.per_layer_projection.weight": "layers.{i}.input_projection",
    "model.layers.{i}.post_per_layer_input_norm.weight": "layers.{i}.post_input_norm",
}
GEMMA4_NAMES = _OF_GEMMA4 | {name.replace(".mlp.experts.", ".experts."): ours for name, ours in _EXPERTS.items()}
STACKED_GEMMA4_NAMES = _OF_GEMMA4 | {
    name.replace(".mlp.experts.", ".experts."): ours for name, ours in _STACKED_EXPERTS.items()
}
_OF_ASSISTANT = {
    **{name: ours for name, ours in GEMMA3_NAMES.items() if ours not in ("embedding", "lm_head")},
    "model.layers.{i}.layer_scalar": "layers.{i}.scale",
    "pre_projection.weight": "fc",
    "post_projection.weight": "carried_projection",
}
ASSISTANT_NAMES = _OF_ASSISTANT | {"lm_head.weight": "lm_head"}
TIED_ASSISTANT_NAMES = _OF_ASSISTANT | {"model.embed_tokens.weight": "lm_head"}
_OF_QWEN3_NEXT = _ENDS | _GATED_ATTENTION | _QK_NORMS | _GATED_DELTA | _PRE_NORMS
_OF_ITS_MIXTURES = _OF_QWEN3_NEXT | _ROUTER | _SHARED_EXPERT
QWEN3_5_NAMES = _OF_QWEN3_NEXT | _DELTA_INPUTS | _MLP
QWEN3_5_MOE_NAMES = _OF_ITS_MIXTURES | _DELTA_INPUTS | _EXPERTS
STACKED_QWEN3_5_MOE_NAMES = _OF_ITS_MIXTURES | _DELTA_INPUTS | _STACKED_EXPERTS
QWEN3_NEXT_NAMES = _OF_ITS_MIXTURES | _PACKED_DELTA_INPUTS | _EXPERTS
STACKED_QWEN3_NEXT_NAMES = _OF_ITS_MIXTURES | _PACKED_DELTA_INPUTS | _STACKED_EXPERTS
OLMO2_NAMES = _ENDS | _ATTENTION | _QK_NORMS | _MLP | _POST_NORMS
STABLELM_NAMES = LLAMA_NAMES | _NORM_BIASES | _NORMS_OF_EACH_HEAD
STARCODER2_NAMES = _ENDS | _ATTENTION | _PLAIN_MLP | _PRE_NORMS | _NORM_BIASES
COHERE_NAMES = LLAMA_NAMES | _NORMS_OF_ALL_HEADS
GLM_NAMES = _ENDS | _ATTENTION | _FUSED_MLP | _PRE_NORMS
LFM2_NAMES = (
    {"model.embed_tokens.weight": "embedding", "model.embedding_norm.weight": "final_norm", "lm_head.weight": "lm_head"}
    | _LFM2_ATTENTION
    | _CONVOLUTION
    | _LFM2_MLP
)
LFM2_MOE_NAMES = LFM2_NAMES | _LFM2_EXPERTS
GLM4_MOE_NAMES = _ENDS | _ATTENTION | _QK_NORMS | _DENSE_MLP | _CHOSEN_BY_BIAS | _EXPERTS | _SHARED_EXPERTS | _PRE_NORMS
_LATENT_ATTENTION = {
    "model.layers.{c}.self_attn.q_a_proj.weight": "layers.{c}.q_down",
    "model.layers.{c}.self_attn.q_a_layernorm.weight": "layers.{c}.q_down_norm",
    "model.layers.{c}.self_attn.q_b_proj.weight": "layers.{c}.q",
    "model.layers.{w}.self_attn.q_proj.weight": "layers.{w}.q",
    "model.layers.{i}.self_attn.kv_a_proj_with_mqa.weight": "layers.{i}.kv_down",
    "model.layers.{i}.self_attn.kv_a_layernorm.weight": "layers.{i}.kv_norm",
    "model.layers.{i}.self_attn.kv_b_proj.weight (keys)": "layers.{i}.k_up.{h}",
    "model.layers.{i}.self_attn.kv_b_proj.weight (values)": "layers.{i}.v_up.{h}",
    "model.layers.{i}.self_attn.o_proj.weight": "layers.{i}.o",
}
DEEPSEEK_V3_NAMES = _ENDS | _LATENT_ATTENTION | _DENSE_MLP | _CHOSEN_BY_BIAS | _EXPERTS | _SHARED_EXPERTS | _PRE_NORMS
DEEPSEEK_V2_NAMES = {name: ours for name, ours in DEEPSEEK_V3_NAMES.items() if not name.endswith("correction_bias")}
GLM4_NAMES = _ENDS | _ATTENTION | _FUSED_MLP | _GLM4_NORMS
_EAGLE3_LAYERS = {
    name.removeprefix("model."): ours for name, ours in (_ATTENTION | _QK_NORMS | _MLP | _PRE_NORMS).items()
}
EAGLE3_NAMES = _EAGLE3_ENDS | _EAGLE3_LAYERS | {"layers.0.hidden_norm.weight": "hidden_norm"}
MIDLAYER_NAMES = (
    _EAGLE3_ENDS
    | {name.replace("layers.{i}.", "midlayer."): ours.replace("{i}", "0") for name, ours in _EAGLE3_LAYERS.items()}
    | {"midlayer.hidden_norm.weight": "hidden_norm"}
)
"""Where the first layer has a name of its own."""

DFLASH_NAMES = _EAGLE3_ENDS | _EAGLE3_LAYERS | {"hidden_norm.weight": "hidden_norm"}
DSPARK_NAMES = DFLASH_NAMES | {
    "markov_head.markov_w1.weight": "markov_in",
    "markov_head.markov_w2.weight": "markov_out",
    "confidence_head.proj.weight": "confidence",
    "confidence_head.proj.bias": "confidence_bias",
}
