"""A checkpoint with an adapter gives the logits that transformers gives for the weights W + scale * B A."""

import math
from collections.abc import Sequence as Seq
from itertools import product
from pathlib import Path

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.config import resolve_isa
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Batch
from services.engine.lora.adapter import NO_ADAPTER
from services.engine.lora.adapter_loader import AdapterLoader
from tests.e2e.harness.models import folder
from tests.harness.further import further
from tests.harness.models.checkpoints import Kind
from tests.harness.models.further_checkpoints import Further
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.lora_folders import (
    ALL_LINEAR,
    FUSED,
    OF_GEMMA4,
    OF_LATENT,
    OF_LFM2,
    OF_QWEN3_5,
    OF_QWEN3_NEXT,
    merge,
    write_adapter,
)
from tests.harness.models.representable import representable_checkpoint
from tests.native.harness.devices import make_device, on_cuda
from tests.native.harness.parity import PROMPT, transformers_model

NUM_BLOCKS = 4
MODELS = (
    *("llama", "qwen2", "gemma2", "phi3", "glm4", "lfm2", "qwen3_5", "qwen3_next", "gemma4", "gemma4_small"),
    "glm4_moe_lite",
)
"""Tensors of several weights, rows in another order, short convolutions, states, packed inputs of these, keys that are
values, inputs of layers, and latent vectors."""
MODULES = sorted({*ALL_LINEAR, *FUSED, *OF_LFM2, *OF_QWEN3_5, *OF_GEMMA4})
KINDS = (
    Kind.LLAMA_LINEAR,
    Kind.QWEN2,
    Kind.PHI3,
    Further.GLM4,
    Further.COHERE,
    Further.LFM2,
    Further.QWEN3_5,
    Further.QWEN3_NEXT,
)


def _modules(model: str) -> Seq[str]:
    """Without those of experts, which no adapter changes."""
    return {"qwen3_next": OF_QWEN3_NEXT, "glm4_moe_lite": OF_LATENT}.get(model, MODULES)


def logits(base: Path, adapter: Path, name: str, device_name: str = "") -> torch.Tensor:
    """Of a prompt, by the adapter if it is named, on the best instruction set or another device."""
    checkpoint = load_checkpoint(base)
    device = make_device(device_name or resolve_isa(), 1)
    decoder = load_decoder(checkpoint, device, weights="f32", kv="f32", num_blocks=NUM_BLOCKS)
    adapters = AdapterLoader(checkpoint, decoder).load_all({"one": adapter})
    batch = Batch(max_rows=len(PROMPT), max_sequences=1, max_blocks=NUM_BLOCKS)
    number = adapters[name].number if name else NO_ADAPTER
    if checkpoint.config.has_states:
        decoder.allocate_states(num_slots=1, ring_rows=8)
    slot = 0 if checkpoint.config.has_states else None
    batch.append(PROMPT, position=0, blocks=range(NUM_BLOCKS), num_logits=len(PROMPT), adapter=number, slot=slot)
    return torch.from_numpy(decoder.forward(batch).logits.numpy())


@pytest.mark.parametrize(
    ("model", "is_stabilised"),
    [*product(MODELS, [False]), ("llama", True), *(further(model, True) for model in MODELS if model != "llama")],
)
def test_an_adapter_changes_the_logits_as_merged_weights_do(model: str, is_stabilised: bool, tmp_path: Path) -> None:
    base = folder(model)
    adapter = write_adapter(tmp_path / "a", base, seed=3, modules=_modules(model), use_rslora=is_stabilised)
    scale = 16 / math.sqrt(8) if is_stabilised else 2.0
    expected = transformers_model(merge(tmp_path / "merged", base, adapter, scale), torch.float32)(PROMPT)
    difference = (logits(base, adapter, "one") - expected).abs().max()
    assert difference < 1e-3 < (logits(base, adapter, "") - expected).abs().max()


@on_cuda
@pytest.mark.parametrize("model", [further("llama"), "phi3", "lfm2"])
def test_a_gpu_computes_the_adapter_logits_of_a_cpu(device_name: str, model: str, tmp_path: Path) -> None:
    base = folder(model)
    adapter = write_adapter(tmp_path / "a", base, seed=3, modules=MODULES)
    expected = logits(base, adapter, "one")
    assert (logits(base, adapter, "one", device_name) - expected).abs().max() < 1e-3
    assert (logits(base, adapter, "", device_name) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_gives_a_gguf_file_the_logits_of_its_folder(kind: Kind | Further, tmp_path: Path) -> None:
    """Whichever of them keeps rows in another order than the adapter; a file has the exponentials of decays."""
    base = representable_checkpoint(kind, tmp_path / "base")
    file = write_gguf(base, tmp_path / "model.gguf")
    adapter = write_adapter(tmp_path / "a", base, seed=3, modules=_modules(kind))
    expected = logits(base, adapter, "one")
    most = 1e-3 if load_checkpoint(base).config.has_states else 0.0
    assert (logits(file, adapter, "one") - expected).abs().max() <= most
    assert (logits(file, adapter, "") - expected).abs().max() > 1e-3
