"""Random checkpoints as GGUF files can hold them."""

import json
from pathlib import Path

import torch

from tests.harness.models.checkpoints import Kind, copy_of, edit_json, edit_weights, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint


def representable_checkpoint(kind: Kind | Further, folder: Path) -> Path:
    """A random checkpoint without what llama.cpp has no key for: most windows, a query's scale, and what OLMo 3's
    layers with windows turn by, and biases of convolutions.
    """
    if isinstance(kind, Further):
        copy = copy_of(further_checkpoint(kind), folder)
        if kind is Further.OLMO3:
            ropes = json.loads((copy / "config.json").read_text())["rope_parameters"]
            ropes["sliding_attention"]["rope_theta"] = ropes["full_attention"]["rope_theta"]
            edit_json(copy / "config.json", rope_parameters=ropes)
        if kind in (Further.LFM2_MOE, Further.LFM2_MOE_PLAIN):  # the conversion writes neither
            edit_json(copy / "config.json", routed_scaling_factor=1.0, norm_topk_prob=True)
        if kind is Further.DEEPSEEK_V2:  # it takes one scale for the other
            rope = json.loads((copy / "config.json").read_text())["rope_parameters"]
            edit_json(copy / "config.json", rope_parameters=rope | {"mscale": rope["mscale_all_dim"]})
        if kind is Further.GLM4_MOE_LITE:  # which is a DeepSeek there
            own = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "first_k_dense_replace": 1}
            edit_json(copy / "config.json", **own, mlp_layer_types=None)
        if kind is Further.LFM2:
            edit_json(copy / "config.json", conv_bias=False)
            edit_weights(copy, _without_biases)
        return copy
    copy = copy_of(random_checkpoint(kind), folder)
    if kind == Kind.QWEN2:
        edit_json(copy / "config.json", use_sliding_window=False, layer_types=None, sliding_window=None)
    if kind in (Kind.GEMMA2, Kind.GEMMA3):
        edit_json(copy / "config.json", query_pre_attn_scalar=32)
    return copy


def _without_biases(tensors: dict[str, torch.Tensor]) -> None:
    for name in [name for name in tensors if name.endswith(".bias")]:
        del tensors[name]
