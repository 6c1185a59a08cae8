"""A checkpoint with an adapter gives the logits that transformers gives for the weights W + scale * B A."""

import math
from pathlib import Path

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.config import resolve_isa
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Batch
from services.engine.lora.adapter_set import NO_ADAPTER, AdapterSet
from tests.e2e.models import folder
from tests.lora_folders import ALL_LINEAR, FUSED, merge, write_adapter
from tests.native.devices import make_device
from tests.native.parity import PROMPT, transformers_model

NUM_BLOCKS = 4
MODELS = ("llama", "qwen2", "gemma2", "phi3", "glm4")  # tensors of several weights, and rows in another order


def logits(base: Path, adapter: Path, name: str) -> torch.Tensor:
    """Of a prompt, by the adapter if it is named."""
    checkpoint = load_checkpoint(base)
    decoder = load_decoder(checkpoint, make_device(resolve_isa(), 1), weights="f32", kv="f32", num_blocks=NUM_BLOCKS)
    adapters = AdapterSet.load({"one": adapter}, checkpoint, decoder)
    batch = Batch(max_rows=len(PROMPT), max_sequences=1, max_blocks=NUM_BLOCKS)
    number = adapters.number(name) if name else NO_ADAPTER
    batch.append(PROMPT, position=0, blocks=range(NUM_BLOCKS), num_logits=len(PROMPT), adapter=number)
    return torch.from_numpy(decoder.forward(batch).numpy())


@pytest.mark.parametrize("is_stabilised", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_an_adapter_changes_the_logits_as_merged_weights_do(model: str, is_stabilised: bool, tmp_path: Path) -> None:
    base, modules = folder(model), {*ALL_LINEAR, *FUSED}
    adapter = write_adapter(tmp_path / "a", base, seed=3, modules=sorted(modules), use_rslora=is_stabilised)
    scale = 16 / math.sqrt(8) if is_stabilised else 2.0
    expected = transformers_model(merge(tmp_path / "merged", base, adapter, scale), torch.float32)(PROMPT)
    difference = (logits(base, adapter, "one") - expected).abs().max()
    assert difference < 1e-3 < (logits(base, adapter, "") - expected).abs().max()
