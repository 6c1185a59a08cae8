"""A target whose tokens follow one another in a ring, and drafters of blocks that predict them every time.

A token is a point on many circles. To get to the next token, each circle makes a turn of its own. The target's layers
add nothing. In the drafter, head h of the only layer attends to the row h positions back, whatever that holds: rotary
embeddings tell distances apart. The token that is known, and those of its context, are turned by h; masks are no
points. A row or a context one place off is wrong at once. P-EAGLE has rows in place of a context. In DSpark, only what
the token before adds to a row says anything.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from services.engine.checkpoint.attached.drafter_kind import DrafterKind
from services.engine.checkpoint.checkpoint import load_checkpoint
from tests.harness.models.block_folders import deepspec_fields, masked_fields, zlab_fields
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
_OF_ROW = 0.6  # of the weight of the row after it
_SURE = 3.0  # the drafter is, of each token: by 95 %
_SLOPE = 6.0  # of the target's logits


def write_ring_pair(folder: Path, kind: DrafterKind = DrafterKind.DFLASH) -> tuple[Path, Path]:
    """Write the target and a drafter of this kind into a folder, and return where they are."""
    path = folder / "target"
    write_random_checkpoint(path, Kind.LLAMA)
    edit_weights(path, _make_ring)
    config = load_checkpoint(path).config
    layers = {
        **{"num_hidden_layers": 1, "num_attention_heads": SIZE, "num_key_value_heads": 1, "head_dim": _HEAD_DIM},
        **{"intermediate_size": 32, "rope_theta": _THETA},
    }
    match kind:
        case DrafterKind.P_EAGLE:
            fields = masked_fields(config, draft_vocab_size=config.vocab_size, mask_token_id=_MASK)
            fields["transformer_layer_config"] |= layers
            tensors = _of_rows(config.hidden_size)
        case DrafterKind.DSPARK:
            fields = deepspec_fields(config, **layers, markov_rank=_HEAD_DIM, block_size=SIZE, mask_token_id=_MASK)
            tensors = _of_blocks(config.hidden_size) | _of_tokens_before(config.hidden_size, config.vocab_size)
        case _:
            fields = zlab_fields(config, **layers, block_size=SIZE)
            fields["dflash_config"]["mask_token_id"] = _MASK
            tensors = _of_blocks(config.hidden_size)
    return path, write_drafter(folder / "drafter", fields, tensors)


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


def _of_blocks(hidden: int) -> Tensors:
    turned = [_turned(back - 1) for back in range(SIZE)]  # the mask so far after a token predicts the one in its place
    turned[0] *= 0  # a row does not attend to itself
    fc = np.zeros((hidden, len(BOUNDARIES) * hidden))
    fc[:, :hidden] = np.diag(np.where(np.arange(hidden) < _HEAD_DIM, _FROM_CONTEXT, 1))
    gives = np.concatenate(turned, axis=1) * _CONSTANT  # which undoes the norm before
    return _floats({**_layer(hidden, hidden, gives), "fc.weight": fc, "hidden_norm.weight": np.ones(hidden)})


def _of_rows(hidden: int) -> Tensors:
    turned = [_OF_ROW**back * _turned(back) for back in range(SIZE)]  # each row predicts the next token
    tensors = _layer(hidden, 2 * hidden, np.concatenate(turned, axis=1))
    num_features = len(BOUNDARIES) * hidden
    tensors["fc.weight"] = np.zeros((hidden, num_features))
    tensors["layers.0.hidden_norm.weight"] = np.zeros(hidden)
    tensors["mask_hidden"] = np.zeros((1, 1, num_features))
    return _floats(tensors)


def _of_tokens_before(hidden: int, vocab_size: int) -> Tensors:
    before, after = np.zeros((2, vocab_size, _HEAD_DIM))
    before[:_RING], after[:_RING] = _circles(0), _SLOPE * _circles(-1)
    tensors = {
        "layers.0.self_attn.o_proj.weight": np.zeros((hidden, SIZE * _HEAD_DIM)),
        "markov_head.markov_w1.weight": before,
        "markov_head.markov_w2.weight": after,
        "confidence_head.proj.weight": np.zeros((1, hidden + _HEAD_DIM)),
        "confidence_head.proj.bias": np.full(1, _SURE),
    }
    return _floats(tensors)


def _layer(hidden: int, width: int, gives: NDArray[np.floating[Any]]) -> dict[str, NDArray[np.float64]]:
    """The layer, which reads so many values of a row, the token's first; and the norm after it."""
    angles = np.outer(np.arange(SIZE), _THETA ** (-np.arange(_CIRCLES) / _CIRCLES))  # [heads, pairs]
    looks_back = np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)  # a query that finds a key so far back
    key = np.concatenate([np.ones(_CIRCLES), np.zeros(_CIRCLES)])
    of_constant = np.zeros(width)
    of_constant[_HEAD_DIM:hidden] = 1
    first, ones, narrow = np.eye(_HEAD_DIM, width), np.ones(hidden), np.zeros((32, hidden))
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
    return {f"layers.0.{name}.weight": each for name, each in layer.items()} | {"norm.weight": ones}


def _floats(tensors: dict[str, NDArray[np.float64]]) -> Tensors:
    return {name: np.ascontiguousarray(each, np.float32) for name, each in tensors.items()}
