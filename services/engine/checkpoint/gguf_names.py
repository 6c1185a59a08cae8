"""GGUF names: what GGUF files call the weights; one table, as they do so alike for all architectures.

As in tensor_names.py, it maps a tensor's name in the file, with {i} for the layer, to ours.
"""

_MATRICES = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "final_norm",
    "output.weight": "lm_head",
    "blk.{i}.attn_q.weight": "layers.{i}.q",
    "blk.{i}.attn_k.weight": "layers.{i}.k",
    "blk.{i}.attn_v.weight": "layers.{i}.v",
    "blk.{i}.attn_output.weight": "layers.{i}.o",
    "blk.{i}.attn_q.bias": "layers.{i}.q_bias",
    "blk.{i}.attn_k.bias": "layers.{i}.k_bias",
    "blk.{i}.attn_v.bias": "layers.{i}.v_bias",
    "blk.{i}.attn_output.bias": "layers.{i}.o_bias",
    "blk.{i}.ffn_gate.weight": "layers.{i}.gate",
    "blk.{i}.ffn_up.weight": "layers.{i}.up",
    "blk.{i}.ffn_down.weight": "layers.{i}.down",
    "blk.{i}.ffn_gate.bias": "layers.{i}.gate_bias",
    "blk.{i}.ffn_up.bias": "layers.{i}.up_bias",
    "blk.{i}.ffn_down.bias": "layers.{i}.down_bias",
}
_FUSED_MATRICES = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "final_norm",
    "output.weight": "lm_head",
    "blk.{i}.attn_qkv.weight": "layers.{i}.q layers.{i}.k layers.{i}.v",
    "blk.{i}.attn_output.weight": "layers.{i}.o",
    "blk.{i}.ffn_up.weight": "layers.{i}.gate layers.{i}.up",
    "blk.{i}.ffn_down.weight": "layers.{i}.down",
}
_NORMS = {
    "blk.{i}.attn_norm.weight": "layers.{i}.attention_norm",
    "blk.{i}.ffn_norm.weight": "layers.{i}.mlp_norm",
    "blk.{i}.attn_q_norm.weight": "layers.{i}.q_norm",
    "blk.{i}.attn_k_norm.weight": "layers.{i}.k_norm",
    "blk.{i}.post_attention_norm.weight": "layers.{i}.post_attention_norm",
    "blk.{i}.post_ffw_norm.weight": "layers.{i}.post_mlp_norm",
}

GGUF_NAMES = _MATRICES | _NORMS
GGUF_FUSED_NAMES = _FUSED_MATRICES | _NORMS
EMBEDDING, HEAD, FIRST_QUERY_BIAS = "token_embd.weight", "output.weight", "blk.0.attn_q.bias"
FIRST_UP_BIAS = "blk.0.ffn_up.bias"
ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
