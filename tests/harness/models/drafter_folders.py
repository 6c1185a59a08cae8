"""Folders of random EAGLE-3 drafters, as the two programs that train them write them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from services.engine.checkpoint.model_config import ModelConfig

SMALL = 96  # tokens of a small output matrix
BOUNDARIES = [1, 2, 4]

Tensors = dict[str, NDArray[Any]]


def layer_fields(target: ModelConfig, model_type: str = "llama") -> dict[str, Any]:
    """The fields of the drafter's layer."""
    return {
        "model_type": model_type,
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
        "intermediate_size": 80,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 2048,
    }


def original_fields(target: ModelConfig, **changes: Any) -> dict[str, Any]:
    """A config.json of SafeAILab's kind."""
    fields = layer_fields(target) | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": SMALL}
    return fields | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": BOUNDARIES}} | changes


def speculators_fields(target: ModelConfig, *, model_type: str = "llama", **changes: Any) -> dict[str, Any]:
    """A config.json of the speculators library."""
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
            "verifier": {"name_or_path": "a/target", "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": layer_fields(target, model_type),
        "draft_vocab_size": SMALL,
        "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": BOUNDARIES,
        **changes,
    }


def drafter_tensors(target: ModelConfig, *, layer: str = "midlayer", head_size: int = SMALL) -> Tensors:
    """The tensors of a drafter with one layer, which shares the target's embedding."""
    random, hidden = np.random.default_rng(0), target.hidden_size

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def norm(size: int) -> NDArray[np.float32]:
        return (1 + 0.3 * random.standard_normal(size)).astype(np.float32)

    token_ids = np.sort(random.permutation(target.vocab_size)[:head_size])
    return {
        "fc.weight": matrix(hidden, len(BOUNDARIES) * hidden),
        f"{layer}.input_layernorm.weight": norm(hidden),
        f"{layer}.hidden_norm.weight": norm(hidden),
        f"{layer}.post_attention_layernorm.weight": norm(hidden),
        f"{layer}.self_attn.q_proj.weight": matrix(128, 2 * hidden),
        f"{layer}.self_attn.k_proj.weight": matrix(64, 2 * hidden),
        f"{layer}.self_attn.v_proj.weight": matrix(64, 2 * hidden),
        f"{layer}.self_attn.o_proj.weight": matrix(hidden, 128),
        f"{layer}.mlp.gate_proj.weight": matrix(80, hidden),
        f"{layer}.mlp.up_proj.weight": matrix(80, hidden),
        f"{layer}.mlp.down_proj.weight": matrix(hidden, 80),
        "norm.weight": norm(hidden),
        "lm_head.weight": matrix(head_size, hidden),
        "d2t": token_ids - np.arange(head_size),
        "t2d": np.isin(np.arange(target.vocab_size), token_ids),
    }


def write_drafter(folder: Path, fields: dict[str, Any], tensors: Tensors) -> Path:
    """Write the folder, and return it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    save_file(tensors, folder / "model.safetensors")
    return folder
