"""The KV cache takes up memory as its blocks are used, or ahead of that, and holds the same bits either way."""

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.cache_memory import in_idle_time, take_cache_memory
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, Device, isas
from tests.harness.models.checkpoints import Kind, random_checkpoint

MIB = 1 << 20
TOKENS = [5, 17, 301, 42, 8, 99, 250, 11] * 8


def load(num_bytes: int) -> Decoder:
    checkpoint, device = load_checkpoint(random_checkpoint(Kind.LLAMA)), Device.cpu(isas()[0], 1)
    small = load_decoder(checkpoint, device, weights="f32", kv="f32", num_blocks=1)
    num_blocks = num_bytes // (BLOCK_SIZE * small.kv_bytes_per_token)
    return load_decoder(checkpoint, device, weights="f32", kv="f32", num_blocks=num_blocks)


def logits(decoder: Decoder) -> torch.Tensor:
    batch = Batch(max_rows=len(TOKENS), max_sequences=1, max_blocks=len(TOKENS))
    blocks = range(-(-len(TOKENS) // BLOCK_SIZE))
    batch.append(TOKENS, position=0, blocks=blocks, num_logits=len(TOKENS))
    return torch.from_numpy(decoder.forward(batch).logits.numpy())


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell what a process takes up")
def test_memory_is_taken_when_it_is_asked_for_and_not_before() -> None:
    # In this process, others' memory goes meanwhile.
    command = [sys.executable, "-m", "tests.native.harness.cache_growth"]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert measured["allocated"] < 32 * MIB
    assert measured["taken"] > 112 * MIB


def test_taking_cache_memory_changes_no_bit_of_other_passes() -> None:
    decoder, is_over = load(64 * MIB), threading.Event()
    expected = logits(load(MIB))

    def take_over_and_over() -> Generator[None]:
        while not is_over.is_set():
            yield from take_cache_memory(decoder)

    thread = in_idle_time(take_over_and_over())
    try:
        for _ in range(50):
            assert torch.equal(logits(decoder), expected)
    finally:
        is_over.set()
        thread.join()


def test_blocks_that_are_not_there_are_refused() -> None:
    decoder = load(MIB)
    last = decoder.num_blocks - 1
    for first, count in ((-1, 1), (0, 0), (0, last + 2), (last, 2)):
        with pytest.raises(ValueError, match=r"must be (from|in)"):
            decoder.commit_cache(first, count)
