"""Weights quantised by other tools compute what their values do, and what transformers computes."""

import pytest
import torch
import transformers

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch
from services.engine.decoder.weight_choice import STORED
from tests.harness.models.quantised_folders import plain_folder, quantised_folder
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.parity import PROMPT, reference_model, relative_error

_BLOCKS = -(-len(PROMPT) // BLOCK_SIZE)


def native_logits(folder, weights: str) -> tuple[torch.Tensor, int]:
    """Logits of the prompt, and how many bytes of weights a pass reads."""
    device = make_device(DEVICES[0], threads=1)
    decoder = load_decoder(load_checkpoint(folder), device, weights=weights, kv="f32", num_blocks=_BLOCKS)
    batch = Batch(max_rows=len(PROMPT), max_sequences=1, max_blocks=_BLOCKS)
    batch.append(PROMPT, position=0, blocks=range(_BLOCKS), num_logits=len(PROMPT))
    return torch.from_numpy(decoder.forward(batch).logits.numpy()), decoder.weight_bytes


@pytest.mark.parametrize("way", ["gptq reordered", "awq of 64", "int4 packed with zero points", "float8 in blocks"])
def test_held_by_values_it_gives_the_bits_of_a_plain_folder(way):
    found, _ = native_logits(quantised_folder(way), "f32")
    assert torch.equal(found, native_logits(plain_folder(way), "f32")[0])


@pytest.mark.parametrize("way", ["gptq of 64", "gptq with zero points", "awq", "int8 by outputs"])
def test_stored_weights_lose_only_the_rounding_of_activations(way):
    truth, plain_bytes = native_logits(plain_folder(way), "f32")
    stored, stored_bytes = native_logits(quantised_folder(way), STORED)
    assert 0 < relative_error(stored, truth) < 0.035
    assert stored_bytes < plain_bytes


@pytest.mark.parametrize("way", ["int4 packed", "int8 packed", "compressed float8"])
def test_transformers_reads_the_same_of_compressed_tensors(way):
    folder = quantised_folder(way)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        truth = model(torch.tensor([PROMPT])).logits[0]
    assert relative_error(reference_model(load_checkpoint(folder), torch.float32)(PROMPT), truth) < 1e-4
