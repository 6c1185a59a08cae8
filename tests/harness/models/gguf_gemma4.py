"""Gemma 4 in GGUF files, by the rules of llama.cpp's conversion."""

from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

_SLIDING = "sliding_attention"
_OTHER_NAMES = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale"}


def add_gemma4(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Add the keys that other architectures do not have, and those that have another meaning."""
    slides = [kind == _SLIDING for kind in config["layer_types"]]
    of_whole = config["per_layer_config"][str(slides.index(False))]
    head_dim, kv_heads, shared = config["head_dim"], config["num_key_value_heads"], config["num_kv_shared_layers"]
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern(slides)
    for add in (writer.add_key_length, writer.add_value_length, writer.add_rope_dimension_count):
        add(of_whole["head_dim"])
    for add in (writer.add_key_length_swa, writer.add_value_length_swa, writer.add_rope_dimension_count_swa):
        add(head_dim)
    writer.add_rope_freq_base_swa(config["rope_parameters"][_SLIDING]["rope_theta"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    size, layers = config["intermediate_size"], config["num_hidden_layers"]
    if config["use_double_wide_mlp"]:
        writer.add_feed_forward_length([size] * (layers - shared) + [2 * size] * shared)
    if "num_key_value_heads" in of_whole:
        writer.add_head_count_kv([kv_heads if slides[i] else of_whole["num_key_value_heads"] for i in range(layers)])
    if config["enable_moe_block"]:
        writer.add_expert_used_count(config["top_k_experts"])


def gemma4_name(stored: str, known: str | None) -> str | None:
    """The name of a tensor, which the package knows for most."""
    if other := next((theirs for ours, theirs in _OTHER_NAMES.items() if stored.endswith(ours)), None):
        return f"blk.{stored.split('.')[2]}.{other}"
    return f"{known}.weight" if known and not known.endswith(".weight") else known


def gemma4_factors(config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """The factors of the frequencies of layers without a window; the last parts of their heads do not turn."""
    slides = [kind == _SLIDING for kind in config["layer_types"]]
    half = config["per_layer_config"][str(slides.index(False))]["head_dim"] // 2
    turning = int(half * config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    return {"rope_freqs.weight": np.array([1.0] * turning + [1e30] * (half - turning), dtype=np.float32)}
