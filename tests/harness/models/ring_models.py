"""A target whose tokens follow one another in a ring, and a drafter of blocks that predicts them every time.

A token is a point on many circles, of which the next token is a turn of each. The target's layers add nothing. In the
drafter, head h of the only layer attends to the row h positions back, whatever that holds: rotary embeddings tell
distances apart. The token that is known, and those of its context, are turned by h; masks are no points. A row or a
context one place off is wrong at once.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from services.engine.checkpoint.checkpoint import load_checkpoint
from tests.harness.models.block_folders import zlab_fields
from tests.harness.models.checkpoints import Kind, edit_weights, write_random_checkpoint
from tests.harness.models.drafter_folders import BOUNDARIES, Tensors, write_drafter

SIZE = 8  # tokens of a block, and heads
_RING = 511  # tokens
_MASK = _RING  # the last token of the vocabulary, which is on no circle
_CIRCLES = 32
_HEAD_DIM = 2 * _CIRCLES
_THETA = 3.0  # of rotary embeddings, so that all pairs of a head tell neighbours apart
_SHARPNESS = 5.0  # of queries and of keys
_CONSTANT = 0.5**0.5  # of each value of an embedding that is on no circle, so that those have as much weight
_FROM_CONTEXT = 0.3  # of the weight of the token that is known: the last tokens of a prompt are in no ring
_SLOPE = 6.0  # of the target's logits


def write_ring_pair(folder: Path) -> tuple[Path, Path]:
    """Write both into a folder, and return where they are."""
    path = folder / "target"
    write_random_checkpoint(path, Kind.LLAMA)
    edit_weights(path, _make_ring)
    config = load_checkpoint(path).config
    changes = {
        **{"num_hidden_layers": 1, "num_attention_heads": SIZE, "num_key_value_heads": 1, "head_dim": _HEAD_DIM},
        **{"intermediate_size": 32, "rope_theta": _THETA, "block_size": SIZE},
    }
    fields = zlab_fields(config, **changes)
    fields["dflash_config"]["mask_token_id"] = _MASK
    return path, write_drafter(folder / "drafter", fields, _drafter(config.hidden_size))


def _make_ring(tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
        if name == "model.norm.weight":
            tensor.fill_(1)
        if name == "model.embed_tokens.weight":
            tensor.fill_(_CONSTANT)
            tensor[:, :_HEAD_DIM] = 0
            tensor[:_RING, :_HEAD_DIM] = torch.from_numpy(_circles(0))
        if name == "lm_head.weight":
            tensor.zero_()
            tensor[:_RING, :_HEAD_DIM] = _SLOPE * torch.from_numpy(_circles(-1))


def _turns() -> NDArray[np.int64]:
    """The whole turns of each circle in one round of the ring."""
    return 1 + np.random.default_rng(3).permutation(_RING // 2)[:_CIRCLES]


def _circles(offset: int) -> NDArray[np.float32]:
    """The point of each token, or of the one `offset` after it.  # [tokens, 2 * circles]"""
    angles = 2 * np.pi / _RING * np.outer(np.arange(_RING) + offset, _turns())
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def _turned(steps: int) -> NDArray[np.float32]:
    """The matrix that takes a token's point to that of the token so many steps after it."""
    angles = 2 * np.pi / _RING * steps * _turns()
    cosines, sines = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[cosines, -sines], [sines, cosines]]).astype(np.float32)


def _drafter(hidden: int) -> Tensors:
    angles = np.outer(np.arange(SIZE), _THETA ** (-np.arange(_CIRCLES) / _CIRCLES))  # [heads, pairs]
    looks_back = np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)  # a query that finds a key so far back
    key = np.concatenate([np.ones(_CIRCLES), np.zeros(_CIRCLES)])
    of_constant = np.zeros(hidden)
    of_constant[_HEAD_DIM:] = 1
    first, ones, narrow = np.eye(_HEAD_DIM, hidden), np.ones(hidden), np.zeros((32, hidden))
    fc = np.zeros((hidden, len(BOUNDARIES) * hidden))
    fc[:, :hidden] = np.diag(np.where(np.arange(hidden) < _HEAD_DIM, _FROM_CONTEXT, 1))
    turned = [_turned(back - 1) for back in range(SIZE)]  # the mask so far after a token predicts the one in its place
    turned[0] *= 0  # a row does not attend to itself
    gives = np.concatenate(turned, axis=1) * _CONSTANT  # which undoes the norm before
    layer = {
        "input_layernorm": ones,
        "post_attention_layernorm": ones,
        "self_attn.q_proj": np.outer(looks_back.flatten(), of_constant),
        "self_attn.k_proj": np.outer(key, of_constant),
        "self_attn.v_proj": first,
        "self_attn.o_proj": np.concatenate([gives, np.zeros((hidden - _HEAD_DIM, gives.shape[1]))]),
        "self_attn.q_norm": _SHARPNESS * np.ones(_HEAD_DIM),
        "self_attn.k_norm": _SHARPNESS * np.ones(_HEAD_DIM),
        "mlp.gate_proj": narrow,
        "mlp.up_proj": narrow,
        "mlp.down_proj": narrow.T,
    }
    tensors = {f"layers.0.{name}.weight": each for name, each in layer.items()}
    tensors |= {"fc.weight": fc, "hidden_norm.weight": ones, "norm.weight": ones}
    return {name: np.ascontiguousarray(each, np.float32) for name, each in tensors.items()}
