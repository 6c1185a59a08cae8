"""Make a target and a drafter of blocks of known quality for benchmarks: `python -m benchmarks.heads.make_block OUT`.

The target is as in make_head, but its tokens are points on many circles. From one token to the next in the ring, each
circle makes a turn of its own. The drafter, a DFlash head of five layers of the target's shape, attends from the mask
h places after the known token to that token, by head h of its first layer, and turns it by h. So it predicts what the
target says, wherever that is among the tokens that it knows. These are 72 % by default, at random, so that 72, 52 and
37 % of its runs get to the first, second and third position.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.heads.make_head import (
    CARRIED,
    COMMON,
    SHAPES,
    WORDS,
    begin,
    known_tokens,
    random_matrix,
    random_ring,
    write_folder,
    write_target,
)

_SMALLEST = {"hidden_size": 384, "num_attention_heads": 12, "num_hidden_layers": 8}
_SHAPES = {name: each | (_SMALLEST if name == "smallest" else {}) for name, each in SHAPES.items()}
_LAYERS, _STREAMS = 5, 5
_THETA = 3.0  # of rotary embeddings, so that all pairs of a head tell neighbours apart
_SHARPNESS = 8.0  # of queries and of keys
_MASK = WORDS  # the first token that is on no circle
_CONSTANT = 0.5**0.5  # of each value of an embedding that is on no circle


def main() -> None:
    """Make both folders."""
    arguments = begin(__doc__, _SHAPES, out="folder for target/ and head/", right="share of the tokens that it knows")
    write_block(arguments.out, {**COMMON, **_SHAPES[arguments.shape]}, arguments.right)


def write_block(out: Path, shape: dict[str, Any], right: float) -> None:
    """Write the target and its head; the head knows this share of the tokens that the target says."""
    ring, carried = random_ring(), CARRIED * shape["head_dim"]
    turns = 1 + torch.randperm(len(ring) // 2 - 1)[: carried // 2].double()  # of each circle in a round of the ring
    embedding, output = torch.zeros(2, shape["vocab_size"], shape["hidden_size"])
    embedding[:, carried:] = _CONSTANT
    embedding[ring, :carried] = _points(turns, torch.arange(len(ring)), len(ring))
    output[ring, :carried] = _points(turns, torch.arange(len(ring)) - 1, len(ring))
    write_target(out / "target", shape, embedding, output)
    known = known_tokens(shape["vocab_size"], right)
    write_folder(out / "head", _config(shape, len(known)), _weights(shape, turns, len(ring), output, known))


def _points(turns: Tensor, places: Tensor, length: int) -> Tensor:
    """The points on all circles of places in the ring: those of a key-value head together.  # [places, carried]"""
    angles = 2 * torch.pi / length * torch.outer(places.double(), turns)
    both = torch.stack([angles.cos(), angles.sin()], dim=1)  # [places, 2, circles]
    return both.view(len(places), 2, CARRIED, -1).movedim(2, 1).flatten(1).float()


def _weights(shape: dict[str, Any], turns: Tensor, length: int, output: Tensor, known: Tensor) -> dict[str, Tensor]:
    hidden, inner, head_dim = shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]
    heads, carried = shape["num_attention_heads"], CARRIED * head_dim
    fc = torch.zeros(hidden, _STREAMS * hidden)
    fc[carried:, carried:hidden] = torch.eye(hidden - carried)
    weights = {"fc.weight": fc, "lm_head.weight": output[known], "d2t": known - torch.arange(len(known))}
    for index in range(_LAYERS):
        layer = {
            "self_attn.q_proj": random_matrix(heads * head_dim, hidden),
            "self_attn.k_proj": random_matrix(carried, hidden),
            "self_attn.v_proj": random_matrix(carried, hidden),
            "self_attn.o_proj": torch.zeros(hidden, heads * head_dim),
            "self_attn.q_norm": torch.full((head_dim,), _SHARPNESS),
            "self_attn.k_norm": torch.full((head_dim,), _SHARPNESS),
            "mlp.gate_proj": random_matrix(inner, hidden),
            "mlp.up_proj": random_matrix(inner, hidden),
            "mlp.down_proj": torch.zeros(hidden, inner),
            **{name: torch.ones(hidden) for name in ("input_layernorm", "post_attention_layernorm")},
        }
        layer |= _attention(shape, turns, length) if index == 0 else {}
        weights |= {f"layers.{index}.{name}.weight": each for name, each in layer.items()}
    return weights | {name: torch.ones(hidden) for name in ("norm.weight", "hidden_norm.weight")}


def _attention(shape: dict[str, Any], turns: Tensor, length: int) -> dict[str, Tensor]:
    hidden, head_dim, heads = shape["hidden_size"], shape["head_dim"], shape["num_attention_heads"]
    each, carried, pairs = heads // CARRIED, CARRIED * head_dim, head_dim // 2
    angles = torch.outer(torch.arange(each), _THETA ** (-torch.arange(pairs) / pairs))
    looks_back = torch.cat([angles.cos(), -angles.sin()], dim=1).repeat(CARRIED, 1)  # [heads, head_dim]
    of_constant = torch.zeros(hidden)
    of_constant[carried:] = 1
    gives = torch.zeros(hidden, heads, head_dim)
    for head in range(heads):
        index, back = head // each, head % each
        if back:  # the mask so far after a token predicts the one in its place, which the output has one turn on
            turned = 2 * torch.pi / length * (back - 1) * turns.view(CARRIED, -1)[index]
            cosines, sines = turned.cos().diag(), turned.sin().diag()
            own = slice(index * head_dim, (index + 1) * head_dim)
            gives[own, head] = (
                _CONSTANT * torch.cat([torch.cat([cosines, -sines], 1), torch.cat([sines, cosines], 1)]).float()
            )
    key = torch.cat([torch.ones(pairs), torch.zeros(pairs)]).repeat(CARRIED)
    return {
        "self_attn.q_proj": torch.outer(looks_back.flatten(), of_constant),
        "self_attn.k_proj": torch.outer(key, of_constant),
        "self_attn.v_proj": torch.eye(carried, hidden),
        "self_attn.o_proj": gives.flatten(1),
    }


def _config(shape: dict[str, Any], num_tokens: int) -> dict[str, Any]:
    layers = shape | {
        "model_type": "qwen3",
        "num_hidden_layers": _LAYERS,
        "max_position_embeddings": 2048,
        "rope_theta": _THETA,
    }
    depth = shape["num_hidden_layers"]
    return {
        "speculators_model_type": "dflash",
        "transformer_layer_config": layers,
        "draft_vocab_size": num_tokens,
        "aux_hidden_state_layer_ids": [depth * (index + 1) // (_STREAMS + 1) for index in range(_STREAMS)],
        "mask_token_id": _MASK,
        "block_size": shape["num_attention_heads"] // CARRIED,
    }


if __name__ == "__main__":
    main()
