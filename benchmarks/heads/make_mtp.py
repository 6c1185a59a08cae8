"""Make a model with a layer for multi-token prediction of known quality: `python -m benchmarks.heads.make_mtp OUT`.

The model has the shape of Qwen 3.5 and weights that cost what others cost, but its layers add nothing: its next token
depends on the last one only, and all its tokens follow each other in one long ring. Its own layer for multi-token
prediction hands the token's embedding on, and so predicts what the model says. Only the embeddings of some tokens, 28 %
by default, at random, have a mark by which the layer makes noise of them, and which the model does not see.
"""

from typing import Any

import torch
from torch import Tensor

from benchmarks.heads.make_head import SPECIAL, WORDS, begin, random_matrix, write_folder, write_tokenizer

_CARRIED = 256  # dimensions of the residual, the first, that hold all that differs between tokens
_MARK = _CARRIED  # the next one
_LOUD = 64.0  # a mark, and the noise that it makes
_SHAPES: dict[str, dict[str, Any]] = {
    "0.8b": {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
    },
    "4b": {
        "hidden_size": 2560,
        "intermediate_size": 9216,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "linear_num_value_heads": 32,
    },
    "smallest": {  # to test the benchmarks with
        "vocab_size": 70_000,
        "hidden_size": 512,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
    },
}
_COMMON = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "vocab_size": 248_320,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "mtp_num_hidden_layers": 1,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000.0, "partial_rotary_factor": 0.25},
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}


def main() -> None:
    """Make the folder."""
    arguments = begin(__doc__, _SHAPES, out="the model's folder", right="share of the tokens without a mark")
    shape = {**_COMMON, **_SHAPES[arguments.shape]}
    write_folder(arguments.out, shape, _tables(shape, arguments.right) | _layers(shape) | _own_layer(shape))
    write_tokenizer(arguments.out)


def _tables(shape: dict[str, Any], right: float) -> dict[str, Tensor]:
    size, hidden = shape["vocab_size"], shape["hidden_size"]
    embedding, output = torch.zeros(size, hidden), torch.zeros(size, hidden)
    embedding[:, :_CARRIED] = 2.0 * torch.randint(0, 2, (size, _CARRIED)) - 1
    ring = torch.randperm(WORDS - SPECIAL) + SPECIAL
    output[ring.roll(-1)] = embedding[ring]
    embedding[:, _MARK] = _LOUD * (torch.rand(size) > right)
    return {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": output,
        "model.norm.weight": torch.zeros(hidden),
    }


def _layers(shape: dict[str, Any]) -> dict[str, Tensor]:
    interval = shape["full_attention_interval"]
    weights: dict[str, Tensor] = {}
    for index in range(shape["num_hidden_layers"]):
        mixer = _delta(shape) if (index + 1) % interval else _attention(shape)
        weights |= {f"model.layers.{index}.{name}": each for name, each in (mixer | _mlp(shape)).items()}
    return weights


def _own_layer(shape: dict[str, Any]) -> dict[str, Tensor]:
    hidden = shape["hidden_size"]
    fc = torch.zeros(hidden, 2 * hidden)
    fc[:_CARRIED, :_CARRIED] = torch.eye(_CARRIED)
    fc[:_CARRIED, _MARK] = _LOUD * torch.randn(_CARRIED)
    norms = {name: torch.zeros(hidden) for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}
    layer = {f"layers.0.{name}": each for name, each in (_attention(shape) | _mlp(shape)).items()}
    around = {"fc.weight": fc, **{f"{name}.weight": each for name, each in norms.items()}}
    return {f"mtp.{name}": each for name, each in (around | layer).items()}


def _attention(shape: dict[str, Any]) -> dict[str, Tensor]:
    hidden, head_dim = shape["hidden_size"], shape["head_dim"]
    query, key = (shape[f"num_{name}_heads"] * head_dim for name in ("attention", "key_value"))
    return {
        "self_attn.q_proj.weight": random_matrix(2 * query, hidden),
        "self_attn.k_proj.weight": random_matrix(key, hidden),
        "self_attn.v_proj.weight": random_matrix(key, hidden),
        "self_attn.o_proj.weight": torch.zeros(hidden, query, dtype=torch.bfloat16),
        "self_attn.q_norm.weight": torch.zeros(head_dim),
        "self_attn.k_norm.weight": torch.zeros(head_dim),
    }


def _delta(shape: dict[str, Any]) -> dict[str, Tensor]:
    hidden, heads = shape["hidden_size"], shape["linear_num_value_heads"]
    keys = shape["linear_num_key_heads"] * shape["linear_key_head_dim"]
    values = heads * shape["linear_value_head_dim"]
    channels = 2 * keys + values
    inputs = {"in_proj_qkv": channels, "in_proj_z": values, "in_proj_b": heads, "in_proj_a": heads}
    return {
        **{f"linear_attn.{name}.weight": random_matrix(rows, hidden) for name, rows in inputs.items()},
        "linear_attn.conv1d.weight": torch.randn(channels, 1, shape["linear_conv_kernel_dim"]),
        "linear_attn.A_log": torch.zeros(heads),
        "linear_attn.dt_bias": torch.zeros(heads),
        "linear_attn.norm.weight": torch.ones(shape["linear_value_head_dim"]),
        "linear_attn.out_proj.weight": torch.zeros(hidden, values, dtype=torch.bfloat16),
    }


def _mlp(shape: dict[str, Any]) -> dict[str, Tensor]:
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    return {
        "mlp.gate_proj.weight": random_matrix(inner, hidden),
        "mlp.up_proj.weight": random_matrix(inner, hidden),
        "mlp.down_proj.weight": torch.zeros(hidden, inner, dtype=torch.bfloat16),
        "input_layernorm.weight": torch.zeros(hidden),
        "post_attention_layernorm.weight": torch.zeros(hidden),
    }


if __name__ == "__main__":
    main()
