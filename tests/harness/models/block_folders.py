"""Folders of drafters that predict several tokens in one pass, as the programs that train them write them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import ModelConfig
from tests.harness.models.drafter_folders import BOUNDARIES, Tensors, layer_fields, speculators_fields

MASK = 5  # a token
SIZE = 6  # tokens of a block
LAYERS = 2
RANK = 16


def zlab_fields(target: ModelConfig, **changes: Any) -> dict[str, Any]:
    """A config.json of z-lab's kind, whose layer ids count the layers before a boundary without the last of them."""
    fields = layer_fields(target, "qwen3") | {"architectures": ["DFlashDraftModel"], "num_hidden_layers": LAYERS}
    own = {"mask_token_id": MASK, "target_layer_ids": [each - 1 for each in BOUNDARIES]}
    return fields | {"block_size": SIZE, "dflash_config": own, "num_target_layers": target.num_layers} | changes


def speculators_block_fields(target: ModelConfig, **changes: Any) -> dict[str, Any]:
    """A config.json of the speculators library."""
    fields = speculators_fields(target, model_type="qwen3", speculators_model_type="dflash")
    del fields["norm_before_residual"], fields["eagle_aux_hidden_state_layer_ids"], fields["speculators_config"]
    fields["transformer_layer_config"]["num_hidden_layers"] = LAYERS
    own = {"aux_hidden_state_layer_ids": BOUNDARIES, "mask_token_id": MASK, "block_size": SIZE}
    return fields | {"architectures": ["DFlashSpeculator"]} | own | changes


def deepspec_fields(target: ModelConfig, **changes: Any) -> dict[str, Any]:
    """A config.json of DeepSpec's kind, all of whose fields are beside those of the layers."""
    fields = zlab_fields(target, architectures=["Qwen3DSparkModel"])
    own = fields.pop("dflash_config")
    heads = {"markov_rank": RANK, "markov_head_type": "vanilla", "enable_confidence_head": True}
    return fields | own | heads | {"confidence_head_with_markov": True, "num_anchors": 512} | changes


def masked_fields(target: ModelConfig, **changes: Any) -> dict[str, Any]:
    """A config.json of a P-EAGLE head of the speculators library."""
    fields = speculators_fields(target, model_type="qwen3", speculators_model_type="peagle")
    del fields["norm_before_residual"]
    return fields | {"architectures": ["PEagleSpeculator"], "mask_token_id": MASK} | changes


def markov_tensors(target: ModelConfig, head_size: int, hidden: int) -> Tensors:
    """What DSpark adds to the tensors of a block."""
    random = np.random.default_rng(1)
    return {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in {
            "markov_head.markov_w1.weight": (target.vocab_size, RANK),
            "markov_head.markov_w2.weight": (head_size, RANK),
            "confidence_head.proj.weight": (1, hidden + RANK),
            "confidence_head.proj.bias": (1,),
        }.items()
    }


def block_tensors(target: ModelConfig, *, head_size: int = 0, hidden: int | None = None) -> Tensors:
    """The tensors of a drafter, without tables or with an output matrix of so many tokens."""
    random, hidden = np.random.default_rng(0), hidden or target.hidden_size

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def norm(size: int) -> NDArray[np.float32]:
        return (1 + 0.3 * random.standard_normal(size)).astype(np.float32)

    tensors: Tensors = {
        "fc.weight": matrix(hidden, len(BOUNDARIES) * target.hidden_size),
        "hidden_norm.weight": norm(hidden),
        "norm.weight": norm(hidden),
    }
    for index in range(LAYERS):
        layer = {
            "input_layernorm": norm(hidden),
            "post_attention_layernorm": norm(hidden),
            "self_attn.q_proj": matrix(128, hidden),
            "self_attn.k_proj": matrix(64, hidden),
            "self_attn.v_proj": matrix(64, hidden),
            "self_attn.o_proj": matrix(hidden, 128),
            "self_attn.q_norm": norm(32),
            "self_attn.k_norm": norm(32),
            "mlp.gate_proj": matrix(80, hidden),
            "mlp.up_proj": matrix(80, hidden),
            "mlp.down_proj": matrix(hidden, 80),
        }
        tensors |= {f"layers.{index}.{name}.weight": each for name, each in layer.items()}
    if head_size:
        token_ids = np.sort(random.permutation(target.vocab_size)[:head_size])
        tensors["lm_head.weight"] = matrix(head_size, hidden)
        tensors["d2t"] = token_ids - np.arange(head_size)
    return tensors
