"""A target whose next token depends on the last one only, and an attached drafter that predicts it every time.

The target's layers add nothing. The drafter finds rows of the same token by attention, which all carry the token's own
embedding, and hands that to the target's output matrix; its hidden vectors are normed to nothing. So a row one place
off is wrong at once.
"""

from pathlib import Path

import numpy as np
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from tests.harness.models.checkpoints import Kind, edit_weights, write_random_checkpoint
from tests.harness.models.drafter_folders import BOUNDARIES, original_fields, write_drafter

_HEADS, _HEAD_DIM = 4, 32
_SLOW = [*range(5, 16), *range(21, 32)]  # dimensions of a head that rotate hardly at all
_SHARPNESS = 8.0
_LONGEST = 64  # positions, so that most texts are longer


def write_one_step_pair(folder: Path) -> tuple[Path, Path]:
    """Write both into a folder, and return where they are."""
    path = folder / "target"
    write_random_checkpoint(path, Kind.LLAMA)

    edit_weights(path, make_one_step)
    return path, _write_drafter(folder / "drafter", path)


def make_one_step(tensors: dict[str, torch.Tensor]) -> None:
    """Let a model's layers add nothing, so that its next token depends on the last one only."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in tensors.items():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "experts.down_proj")):
            tensor.zero_()
        if "embed_tokens" in name:  # all of the same length, in each head too
            signs = torch.randint(0, 2, tensor.shape, generator=generator)
            tensor.copy_(2 * signs - 1)


def _write_drafter(folder: Path, target: Path) -> Path:
    checkpoint = load_checkpoint(target)
    config, hidden = checkpoint.config, checkpoint.config.hidden_size
    assert hidden == _HEADS * _HEAD_DIM
    nothing = np.zeros((hidden, hidden), np.float32)
    slow = np.isin(np.arange(hidden) % _HEAD_DIM, _SLOW).astype(np.float32)[:, None]
    of_token = np.concatenate([np.eye(hidden, dtype=np.float32), nothing], axis=1)
    ones, narrow = np.ones(hidden, np.float32), np.zeros((32, hidden), np.float32)
    tensors = {
        "fc.weight": np.zeros((hidden, len(BOUNDARIES) * hidden), np.float32),
        "midlayer.input_layernorm.weight": ones,
        "midlayer.hidden_norm.weight": 0 * ones,
        "midlayer.post_attention_layernorm.weight": ones,
        "midlayer.self_attn.q_proj.weight": _SHARPNESS * slow * of_token,
        "midlayer.self_attn.k_proj.weight": _SHARPNESS * slow * of_token,
        "midlayer.self_attn.v_proj.weight": of_token,
        "midlayer.self_attn.o_proj.weight": np.eye(hidden, dtype=np.float32),
        "midlayer.mlp.gate_proj.weight": narrow,
        "midlayer.mlp.up_proj.weight": narrow,
        "midlayer.mlp.down_proj.weight": np.ascontiguousarray(narrow.T),
        "norm.weight": dict(checkpoint.weights())["final_norm"].astype(np.float32),
    }
    changes = {"num_key_value_heads": _HEADS, "intermediate_size": len(narrow), "rope_theta": 1e12}
    changes["max_position_embeddings"] = _LONGEST
    fields = original_fields(config, norm_before_residual=True, **changes)
    return write_drafter(folder, fields, tensors)
