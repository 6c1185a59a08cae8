"""GGUF names: the names of weights in GGUF files, which are the same for all architectures.

As in tensor_names.py, the tables map a tensor's name in the file to ours; experts and heads lie one below the other.
"""

_ENDS = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "final_norm",
    "output.weight": "lm_head",
}
_ATTENTION = {
    "blk.{i}.attn_q.weight": "layers.{i}.q",
    "blk.{i}.attn_k.weight": "layers.{i}.k",
    "blk.{i}.attn_v.weight": "layers.{i}.v",
    "blk.{i}.attn_output.weight": "layers.{i}.o",
    "blk.{i}.attn_q.bias": "layers.{i}.q_bias",
    "blk.{i}.attn_k.bias": "layers.{i}.k_bias",
    "blk.{i}.attn_v.bias": "layers.{i}.v_bias",
    "blk.{i}.attn_output.bias": "layers.{i}.o_bias",
}
_FUSED_ATTENTION = {
    "blk.{i}.attn_qkv.weight": "layers.{i}.q layers.{i}.k layers.{i}.v",
    "blk.{i}.attn_output.weight": "layers.{i}.o",
}
_MLP = {
    "blk.{i}.ffn_gate.weight": "layers.{i}.gate",
    "blk.{i}.ffn_up.weight": "layers.{i}.up",
    "blk.{i}.ffn_down.weight": "layers.{i}.down",
    "blk.{i}.ffn_gate.bias": "layers.{i}.gate_bias",
    "blk.{i}.ffn_up.bias": "layers.{i}.up_bias",
    "blk.{i}.ffn_down.bias": "layers.{i}.down_bias",
}
_FUSED_MLP = {
    "blk.{i}.ffn_up.weight": "layers.{i}.gate layers.{i}.up",
    "blk.{i}.ffn_down.weight": "layers.{i}.down",
}
_EXPERTS = {
    "blk.{m}.ffn_gate_inp.weight": "layers.{m}.router",
    "blk.{m}.ffn_gate_exps.weight": "layers.{m}.experts.{e}.gate",
    "blk.{m}.ffn_up_exps.weight": "layers.{m}.experts.{e}.up",
    "blk.{m}.ffn_down_exps.weight": "layers.{m}.experts.{e}.down",
}
_SHARED_EXPERT = {
    "blk.{m}.ffn_gate_inp_shexp.weight": "layers.{m}.shared_gate",
    "blk.{i}.ffn_gate_shexp.weight": "layers.{i}.gate",
    "blk.{i}.ffn_up_shexp.weight": "layers.{i}.up",
    "blk.{i}.ffn_down_shexp.weight": "layers.{i}.down",
}
_DENSE_MLP = {
    "blk.{d}.ffn_gate.weight": "layers.{d}.gate",
    "blk.{d}.ffn_up.weight": "layers.{d}.up",
    "blk.{d}.ffn_down.weight": "layers.{d}.down",
}
_UNGATED_EXPERT = {
    "blk.{m}.ffn_gate_shexp.weight": "layers.{m}.gate",
    "blk.{m}.ffn_up_shexp.weight": "layers.{m}.up",
    "blk.{m}.ffn_down_shexp.weight": "layers.{m}.down",
}
CHOICE_BIAS = ".exp_probs_b.bias"
_CHOICE_BIAS = {f"blk.{{m}}{CHOICE_BIAS}": "layers.{m}.choice_bias"}
_NORMS = {
    "blk.{i}.attn_norm.weight": "layers.{i}.attention_norm",
    "blk.{i}.ffn_norm.weight": "layers.{i}.mlp_norm",
    "blk.{i}.attn_q_norm.weight": "layers.{i}.q_norm",
    "blk.{i}.attn_k_norm.weight": "layers.{i}.k_norm",
    "blk.{i}.post_attention_norm.weight": "layers.{i}.post_attention_norm",
    "blk.{i}.post_ffw_norm.weight": "layers.{i}.post_mlp_norm",
}
_GEMMA4 = {
    "per_layer_token_embd.weight": "layer_embedding",
    "per_layer_model_proj.weight": "layer_projection",
    "per_layer_proj_norm.weight": "layer_input_norm",
    "blk.{i}.layer_output_scale.weight": "layers.{i}.scale",
    "blk.{i}.inp_gate.weight": "layers.{i}.input_gate",
    "blk.{i}.proj.weight": "layers.{i}.input_projection",
    "blk.{i}.post_norm.weight": "layers.{i}.post_input_norm",
    "blk.{m}.ffn_gate_inp.scale": "layers.{m}.router_norm",
    "blk.{m}.ffn_down_exps.scale": "layers.{m}.expert_scales",
    "blk.{m}.pre_ffw_norm_2.weight": "layers.{m}.expert_norm",
    "blk.{m}.post_ffw_norm_1.weight": "layers.{m}.post_dense_norm",
    "blk.{m}.post_ffw_norm_2.weight": "layers.{m}.post_expert_norm",
}
_FUSED_EXPERTS = {
    "blk.{m}.ffn_gate_inp.weight": "layers.{m}.router",
    "blk.{m}.ffn_gate_up_exps.weight": "layers.{m}.experts.{e}.gate layers.{m}.experts.{e}.up",
    "blk.{m}.ffn_down_exps.weight": "layers.{m}.experts.{e}.down",
}
_GPT_OSS = {
    "blk.{i}.attn_norm.weight": "layers.{i}.attention_norm",
    "blk.{i}.post_attention_norm.weight": "layers.{i}.mlp_norm",
    "blk.{i}.attn_sinks.weight": "layers.{i}.sinks",
    "blk.{m}.ffn_gate_inp.bias": "layers.{m}.router_bias",
    "blk.{m}.ffn_gate_exps.bias": "layers.{m}.experts.{e}.gate_bias",
    "blk.{m}.ffn_up_exps.bias": "layers.{m}.experts.{e}.up_bias",
    "blk.{m}.ffn_down_exps.bias": "layers.{m}.experts.{e}.down_bias",
}
_NORM_BIASES = {
    "output_norm.bias": "final_norm_bias",
    "blk.{i}.attn_norm.bias": "layers.{i}.attention_norm_bias",
    "blk.{i}.ffn_norm.bias": "layers.{i}.mlp_norm_bias",
}
_NORMS_OF_EACH_HEAD = {
    "blk.{i}.attn_q_norm.weight": "layers.{i}.q_norm.{h}",
    "blk.{i}.attn_k_norm.weight": "layers.{i}.k_norm.{k}",
}
_CONVOLUTION = {
    "token_embd_norm.weight": "final_norm",
    "blk.{i}.shortconv.in_proj.weight": "layers.{i}.conv_in",
    "blk.{i}.shortconv.conv.weight": "layers.{i}.conv.{t}",
    "blk.{i}.shortconv.out_proj.weight": "layers.{i}.conv_out",
}
_DELTA_VALUES = {
    "blk.{i}.attn_qkv.weight": "layers.{i}.delta_qkv",
    "blk.{i}.attn_gate.weight": "layers.{i}.delta_z",
}
_PACKED_DELTA_VALUES = {
    "blk.{i}.ssm_in.weight": "layers.{i}.delta_qkv layers.{i}.delta_z",
}
_DELTA_RATES = {
    "blk.{i}.ssm_beta.weight": "layers.{i}.delta_b",
    "blk.{i}.ssm_alpha.weight": "layers.{i}.delta_a",
}
_PACKED_DELTA_RATES = {
    "blk.{i}.ssm_ba.weight": "layers.{i}.delta_b layers.{i}.delta_a",
}
_GATED_DELTA = {
    "blk.{i}.ssm_conv1d.weight": "layers.{i}.delta_conv.{t}",
    "blk.{i}.ssm_a": "layers.{i}.delta_decay",
    "blk.{i}.ssm_dt.bias": "layers.{i}.delta_decay_bias",
    "blk.{i}.ssm_norm.weight": "layers.{i}.delta_scale",
    "blk.{i}.ssm_out.weight": "layers.{i}.delta_out",
}
_GATED_ATTENTION = {
    "blk.{i}.attn_q.weight": "layers.{i}.q layers.{i}.q_gate",
    "blk.{i}.attn_k.weight": "layers.{i}.k",
    "blk.{i}.attn_v.weight": "layers.{i}.v",
    "blk.{i}.attn_output.weight": "layers.{i}.o",
    "blk.{i}.attn_q_norm.weight": "layers.{i}.q_norm",
    "blk.{i}.attn_k_norm.weight": "layers.{i}.k_norm",
    "blk.{i}.attn_norm.weight": "layers.{i}.attention_norm",
    "blk.{i}.post_attention_norm.weight": "layers.{i}.mlp_norm",
}

_LATENT_ATTENTION = {
    "blk.{c}.attn_q_a.weight": "layers.{c}.q_down",
    "blk.{c}.attn_q_a_norm.weight": "layers.{c}.q_down_norm",
    "blk.{c}.attn_q_b.weight": "layers.{c}.q",
    "blk.{w}.attn_q.weight": "layers.{w}.q",
    "blk.{i}.attn_kv_a_mqa.weight": "layers.{i}.kv_down",
    "blk.{i}.attn_kv_a_norm.weight": "layers.{i}.kv_norm",
    "blk.{i}.attn_k_b.weight": "layers.{i}.k_up.{h}",
    "blk.{i}.attn_v_b.weight": "layers.{i}.v_up.{h}",
    "blk.{i}.attn_output.weight": "layers.{i}.o",
}

GGUF_NAMES = _ENDS | _ATTENTION | _MLP | _NORMS
GGUF_FUSED_NAMES = _ENDS | _FUSED_ATTENTION | _FUSED_MLP | _NORMS
GGUF_FUSED_MLP_NAMES = _ENDS | _ATTENTION | _FUSED_MLP | _NORMS
GGUF_LAYER_NORM_NAMES = GGUF_NAMES | _NORM_BIASES
GGUF_NORM_OF_EACH_HEAD_NAMES = GGUF_LAYER_NORM_NAMES | _NORMS_OF_EACH_HEAD
GGUF_COHERE_NAMES = GGUF_NAMES | _NORMS_OF_EACH_HEAD
GGUF_LFM2_NAMES = {name: ours for name, ours in GGUF_NAMES.items() if ours != "final_norm"} | _CONVOLUTION
_OF_QWEN3_NEXT = _ENDS | _GATED_ATTENTION | _GATED_DELTA
_OF_ITS_MIXTURES = _OF_QWEN3_NEXT | _EXPERTS | _SHARED_EXPERT
GGUF_QWEN3_5_NAMES = _OF_QWEN3_NEXT | _DELTA_VALUES | _DELTA_RATES | _MLP
GGUF_QWEN3_5_MOE_NAMES = _OF_ITS_MIXTURES | _DELTA_VALUES | _DELTA_RATES
GGUF_QWEN3_NEXT_NAMES = _OF_ITS_MIXTURES | _DELTA_VALUES | _PACKED_DELTA_RATES
GGUF_PACKED_QWEN3_NEXT_NAMES = _OF_ITS_MIXTURES | _PACKED_DELTA_VALUES | _PACKED_DELTA_RATES
GGUF_EXPERT_NAMES = _ENDS | _ATTENTION | _EXPERTS | _NORMS
GGUF_LFM2_MOE_NAMES = GGUF_LFM2_NAMES | _EXPERTS | _CHOICE_BIAS
GGUF_GLM4_MOE_NAMES = (_ENDS | _ATTENTION | _DENSE_MLP | _EXPERTS | _UNGATED_EXPERT | _CHOICE_BIAS) | {
    name.replace("ffn_norm", "post_attention_norm"): ours for name, ours in _NORMS.items() if "post" not in ours
}
GGUF_DEEPSEEK_NAMES = _ENDS | _LATENT_ATTENTION | _DENSE_MLP | _EXPERTS | _UNGATED_EXPERT | _CHOICE_BIAS | _NORMS
GGUF_GEMMA4_NAMES = GGUF_NAMES | _FUSED_EXPERTS | _GEMMA4
GGUF_UNFUSED_GEMMA4_NAMES = GGUF_NAMES | _EXPERTS | _GEMMA4
GGUF_GPT_OSS_NAMES = _ENDS | _ATTENTION | _EXPERTS | _GPT_OSS
GGUF_SHARED_EXPERT_NAMES = GGUF_EXPERT_NAMES | _SHARED_EXPERT
MTP_NAMES = {
    "nextn.eh_proj.weight": "fc",
    "nextn.enorm.weight": "embedding_norm",
    "nextn.hnorm.weight": "hidden_norm",
    "nextn.shared_head_norm.weight": "final_norm",
}
"""Of the tensors around a layer for multi-token prediction, after `blk.` and its number."""

MTP_COPIES = ("nextn.embed_tokens.weight", "nextn.shared_head_head.weight")

EMBEDDING, HEAD, FIRST_QUERY_BIAS = "token_embd.weight", "output.weight", "blk.0.attn_q.bias"
FINAL_NORM, KEYS_AND_VALUES = "output_norm.weight", "blk.0.attn_kv_b.weight"
FIRST_UP_BIAS, FIRST_MLP_NORM, FIRST_QUERY_NORM = (
    "blk.0.ffn_up.bias",
    "blk.0.ffn_norm.weight",
    "blk.0.attn_q_norm.weight",
)
ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
