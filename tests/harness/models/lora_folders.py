"""Random adapters in folders as PEFT saves them, and checkpoints into which they are merged."""

import json
import shutil
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

PREFIX = "base_model.model."
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
OF_LFM2 = ("q_proj", "k_proj", "v_proj", "out_proj", "in_proj", "w1", "w2", "w3")
OF_QWEN3_5 = (*ALL_LINEAR, "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")
OF_QWEN3_NEXT = ("q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkvz", "in_proj_ba", "out_proj")
OF_GEMMA4 = (*ALL_LINEAR, "per_layer_input_gate", "per_layer_projection", "per_layer_model_projection")
OF_LATENT = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj")
FUSED = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")


def write_adapter(
    path: Path, base: Path, *, seed: int, rank: int = 8, modules: Seq[str] = ALL_LINEAR, **config: Any
) -> Path:
    """Write an adapter of a checkpoint's modules that changes what is drawn."""
    generator, tensors = torch.Generator().manual_seed(seed), {}
    for name, weight in load_file(base / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in modules:
            outputs, inputs = weight.shape
            down = torch.randn(rank, inputs, generator=generator) / inputs**0.5
            tensors[f"{PREFIX}{module}.lora_A.weight"] = down
            tensors[f"{PREFIX}{module}.lora_B.weight"] = torch.randn(outputs, rank, generator=generator) / 16
    path.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path / "adapter_model.safetensors")
    fields = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": [*modules], "bias": "none"}
    (path / "adapter_config.json").write_text(json.dumps({**fields, **config}))
    return path


def merge(path: Path, base: Path, adapter: Path, scale: float) -> Path:
    """Write the checkpoint whose weights are W + scale * B A, of arXiv 2106.09685, section 4.1, in float32."""
    shutil.copytree(base, path)
    weights, changes = load_file(base / "model.safetensors"), load_file(adapter / "adapter_model.safetensors")
    for name, down in changes.items():
        if name.endswith(".lora_A.weight"):
            up = changes[name.replace("lora_A", "lora_B")]
            own = name.removeprefix(PREFIX).replace(".lora_A.", ".")
            weights[own] = weights[own].float() + scale * (up @ down)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path
