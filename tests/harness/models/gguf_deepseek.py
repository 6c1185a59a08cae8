"""What GGUF files of attention to latent vectors have beside others, by the rules of llama.cpp's conversion."""

from typing import Any

import gguf
import torch

_BOTH = ".kv_b_proj.weight"


def add_deepseek(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Write the keys of its sizes and experts; one head of keys and values has a row of all."""
    rank, turning = config["kv_lora_rank"], config["qk_rope_head_dim"]
    is_scored = config["model_type"] != "deepseek_v2"
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(rank)
    writer.add_key_length(rank + turning)
    writer.add_value_length(rank)
    writer.add_key_length_mla(config["qk_nope_head_dim"] + turning)
    writer.add_value_length_mla(config["v_head_dim"])
    writer.add_leading_dense_block_count(config.get("first_k_dense_replace", 1))
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config.get("norm_topk_prob", False))
    funcs = gguf.ExpertGatingFuncType
    writer.add_expert_gating_func(funcs.SIGMOID if is_scored else funcs.SOFTMAX)
    if groups := config["n_group"]:
        writer.add_expert_group_count(groups)
        writer.add_expert_group_used_count(config["topk_group"])
    if growth := config["rope_parameters"].get("mscale_all_dim"):
        writer.add_rope_scaling_yarn_log_mul(0.1 * growth)


def with_heads_apart(stored: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    """Put each head's keys, transposed, and values into one tensor for all heads in turn."""
    for name in [name for name in stored if name.endswith(_BOTH)]:
        both = stored.pop(name).unflatten(0, (config["num_attention_heads"], -1))
        keys, values = both.split([config["qk_nope_head_dim"], config["v_head_dim"]], dim=1)
        stored[name.replace("kv_b", "k_b")] = keys.transpose(1, 2)
        stored[name.replace("kv_b", "v_b")] = values
