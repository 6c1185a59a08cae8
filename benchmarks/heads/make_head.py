"""Make a target and an attached drafter of known quality for benchmarks: `python -m benchmarks.heads.make_head OUT`.

The target has the shape of Qwen2.5-1.5B and weights that cost what others cost, but its layers add nothing: its next
token depends on the last one only, and all its tokens follow each other in one long ring. The drafter, an EAGLE-3 head
of the shape that is trained for such models, finds rows of the same token by attention, which carry the token's own
embedding, and so predicts what the target says, wherever that is among the tokens that it knows. These are 72 % by
default, at random, so that 72, 52 and 37 % of its runs get to the first, second and third position.
"""

import argparse
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.make_pair import syllables

SPECIAL = 2  # tokens, which come first
WORDS = 32768  # tokens that the target says; the others only cost time
_KNOWN = 32000  # tokens of the drafter
CARRIED = 2  # key-value heads, whose dimensions hold all that differs between tokens
SHAPES: dict[str, dict[str, Any]] = {
    "1.5b": {
        "vocab_size": 151936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "head_dim": 128,
    },
    "8b": {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "head_dim": 128,
    },
    "smallest": {  # to test the benchmarks with
        "vocab_size": 33000,
        "hidden_size": 256,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "head_dim": 128,
    },
}
COMMON = {
    "model_type": "llama",
    "num_key_value_heads": CARRIED,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}
_NORMS = ("input_layernorm", "post_attention_layernorm")
_SLOW = 24  # of the pairs of a head, the first that hardly rotates
_SHARPNESS = 4.0


def main() -> None:
    """Make both folders."""
    arguments = begin(__doc__, SHAPES, out="folder for target/ and head/", right="share of the tokens that it knows")
    write_head(arguments.out, {**COMMON, **SHAPES[arguments.shape]}, arguments.right)


def begin(description: str | None, shapes: Collection[str], *, out: str, right: str) -> argparse.Namespace:
    """Parse the options of a program that makes models, the first shape by default, and seed torch."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help=out)
    parser.add_argument("--shape", choices=shapes, default=next(iter(shapes)), help="(%(default)s)")
    parser.add_argument("--right", type=float, default=0.72, help=f"{right} (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the weights (%(default)s)")
    parser.add_argument("--device", default="cpu", help="of torch, on which the weights depend too (%(default)s)")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_default_device(arguments.device)
    return arguments


def write_head(out: Path, shape: dict[str, Any], right: float) -> None:
    """Write the target and its head; the head knows this share of the tokens that the target says."""
    carried = CARRIED * shape["head_dim"]
    embedding, output = torch.zeros(2, shape["vocab_size"], shape["hidden_size"])
    embedding[:, :carried] = 2.0 * torch.randint(0, 2, (shape["vocab_size"], carried)) - 1
    ring = random_ring()
    output[ring.roll(-1)] = embedding[ring]
    write_target(out / "target", shape, embedding, output)
    known = known_tokens(shape["vocab_size"], right)
    write_folder(out / "head", _head_config(shape, len(known)), _of_head(shape, output, known))


def random_ring() -> Tensor:
    """The words in the order in which they follow each other."""
    return torch.randperm(WORDS - SPECIAL) + SPECIAL


def known_tokens(vocab_size: int, right: float) -> Tensor:
    """The tokens of a head that knows this share of the words, in their order."""
    words = torch.randperm(WORDS)[: round(right * WORDS)]
    others = torch.arange(WORDS, vocab_size)[: _KNOWN - len(words)]
    return torch.cat([words, others]).sort().values


def write_target(out: Path, shape: dict[str, Any], embedding: Tensor, output: Tensor) -> None:
    """Write a target with these tables, whose layers cost what others cost and add nothing."""
    write_folder(out, shape | {"architectures": ["LlamaForCausalLM"]}, _of_target(shape, embedding, output))
    write_tokenizer(out)


def _of_target(shape: dict[str, Any], embedding: Tensor, output: Tensor) -> dict[str, Tensor]:
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    width, carried = shape["num_attention_heads"] * shape["head_dim"], CARRIED * shape["head_dim"]
    weights = {"model.embed_tokens.weight": embedding, "lm_head.weight": output}
    for index in range(shape["num_hidden_layers"]):
        layer = {
            **{"q_proj": random_matrix(width, hidden), "o_proj": torch.zeros(hidden, width, dtype=torch.bfloat16)},
            **{name: random_matrix(carried, hidden) for name in ("k_proj", "v_proj")},
        }
        mlp = {
            **{name: random_matrix(inner, hidden) for name in ("gate_proj", "up_proj")},
            "down_proj": torch.zeros(hidden, inner, dtype=torch.bfloat16),
        }
        prefix = f"model.layers.{index}"
        weights |= {f"{prefix}.self_attn.{name}.weight": each for name, each in layer.items()}
        weights |= {f"{prefix}.mlp.{name}.weight": each for name, each in mlp.items()}
        weights |= {f"{prefix}.{name}.weight": torch.ones(hidden) for name in _NORMS}
    return weights | {"model.norm.weight": torch.ones(hidden)}


def _of_head(shape: dict[str, Any], output: Tensor, known: Tensor) -> dict[str, Tensor]:
    hidden, inner, head_dim = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    heads, carried = shape["num_attention_heads"], CARRIED * head_dim
    mixing = _hadamard(head_dim)
    carries = torch.zeros(carried, 2 * hidden)
    carries[:, :carried] = torch.kron(torch.eye(CARRIED), mixing)
    finds = _SHARPNESS * carries * (torch.arange(carried) % (head_dim // 2) >= _SLOW)[:, None]
    gives = torch.zeros(hidden, heads * head_dim)
    for index in range(CARRIED):  # by the first of the heads that share its keys
        first, own = index * heads // CARRIED * head_dim, slice(index * head_dim, (index + 1) * head_dim)
        gives[own, first : first + head_dim] = mixing
    layer = {
        "input_layernorm": torch.ones(hidden),
        "hidden_norm": torch.zeros(hidden),
        "post_attention_layernorm": torch.ones(hidden),
        "self_attn.q_proj": finds.unflatten(0, (CARRIED, -1)).repeat_interleave(heads // CARRIED, 0).flatten(0, 1),
        "self_attn.k_proj": finds,
        "self_attn.v_proj": carries,
        "self_attn.o_proj": gives,
        "mlp.gate_proj": random_matrix(inner, hidden),
        "mlp.up_proj": random_matrix(inner, hidden),
        "mlp.down_proj": torch.zeros(hidden, inner),
    }
    return {
        **{f"layers.0.{name}.weight": each for name, each in layer.items()},
        "fc.weight": random_matrix(hidden, 3 * hidden),
        "norm.weight": torch.ones(hidden),
        "lm_head.weight": output[known],
        "d2t": known - torch.arange(len(known)),
    }


def _head_config(shape: dict[str, Any], num_tokens: int) -> dict[str, Any]:
    layers = shape | {"num_hidden_layers": 1, "max_position_embeddings": 2048, "rope_theta": 1e12}
    depth = shape["num_hidden_layers"]
    return {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layers,
        "draft_vocab_size": num_tokens,
        "eagle_aux_hidden_state_layer_ids": [1, 2, depth] if depth < 8 else [2, depth // 2, depth - 3],
        "norm_before_residual": True,
    }


def _hadamard(size: int) -> Tensor:
    """An orthogonal matrix of two values, its own inverse, which every format of weights holds but for one factor."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    scaled: Tensor = matrix * size**-0.5
    return scaled


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of syllables."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=syllables(), bos_token="<|begin|>", eos_token="<|end|>"
    )
    tokenizer.save_pretrained(folder)


def random_matrix(rows: int, columns: int) -> Tensor:
    """Weights that cost what others cost."""
    scaled: Tensor = torch.randn(rows, columns, dtype=torch.bfloat16) * columns**-0.5
    return scaled


def write_folder(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write a folder without a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    held = {name: each if each.dtype == torch.int64 else each.bfloat16() for name, each in weights.items()}
    save_file(
        {name: each.cpu().contiguous() for name, each in held.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


if __name__ == "__main__":
    main()
