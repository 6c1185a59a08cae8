"""Greedy runs of one checkpoint by transformers, the reference and the native decoder, and how far they differ."""

import functools
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import ModelConfig, Rope
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch
from tests.native.harness.devices import make_device
from tests.native.harness.reference_decoder import KvCache, ReferenceDecoder

NUM_PROMPT, NUM_STEPS = 96, 8
PROMPT = np.random.default_rng(7).integers(4, 500, NUM_PROMPT).tolist()

Model = Callable[[Seq[int]], torch.Tensor]
"""Takes the tokens that follow those taken before, and returns their logits.  # [tokens, vocab]"""


@dataclass(frozen=True)
class Run:
    """Prefill of the prompt and greedy decoding from it."""

    prefill: torch.Tensor  # [prompt, vocab]
    steps: torch.Tensor  # [steps, vocab]
    token_ids: list[int]  # [steps + 1]


def run_greedily(model: Model) -> Run:
    prefill = model(PROMPT)
    token_ids = [int(prefill[-1].argmax())]
    steps = []
    for _ in range(NUM_STEPS):
        steps.append(model(token_ids[-1:])[0])
        token_ids.append(int(steps[-1].argmax()))
    return Run(prefill, torch.stack(steps), token_ids)


def transformers_model(folder: Path, dtype: torch.dtype) -> Model:
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    decoder = getattr(transformers, name).from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    cache = transformers.DynamicCache(config=decoder.config.get_text_config())

    @torch.inference_mode()
    def model(token_ids: Seq[int]) -> torch.Tensor:
        return decoder(torch.tensor([token_ids]), past_key_values=cache).logits[0].float()

    return model


def reference_model(checkpoint: Checkpoint, dtype: torch.dtype) -> Model:
    decoder, cache = ReferenceDecoder(checkpoint.config, checkpoint.weights(), dtype), KvCache()
    return lambda token_ids: decoder.logits(token_ids, cache)


def native_model(checkpoint: Checkpoint, device_name: str, dtype: str, kv: str | None = None) -> Model:
    num_blocks = -(-(NUM_PROMPT + NUM_STEPS) // BLOCK_SIZE)
    decoder = load_decoder(
        checkpoint, make_device(device_name, threads=1), weights=dtype, kv=kv or dtype, num_blocks=num_blocks
    )
    batch = Batch(max_rows=NUM_PROMPT, max_sequences=1, max_blocks=num_blocks)
    slot, position = None, 0
    if checkpoint.config.has_states:
        decoder.allocate_states(num_slots=1, ring_rows=8)
        slot = 0

    def model(token_ids: Seq[int]) -> torch.Tensor:
        nonlocal position
        batch.clear()
        blocks, count = range(num_blocks)[::-1], len(token_ids)
        batch.append(token_ids, position=position, blocks=blocks, num_logits=count, slot=slot, state_position=position)
        position += count
        return torch.from_numpy(decoder.forward(batch).logits.numpy())

    return model


def true_run(folder: Path) -> Run:
    """What transformers computes in float32, where greedy decoding hangs by no rounding."""
    run = run_greedily(transformers_model(folder, torch.float32))
    best = torch.cat([run.prefill[-1:], run.steps]).topk(2).values
    assert (best[:, 0] - best[:, 1]).min() > 1e-4 * best.abs().max(), "greedy has a near-tie: choose another seed"
    return run


def relative_error(values: torch.Tensor, truth: torch.Tensor) -> float:
    return float((values - truth).norm() / truth.norm())


def assert_same_run(run: Run, truth: Run) -> None:
    assert relative_error(run.prefill, truth.prefill) < 1e-4
    errors = [relative_error(step, expected) for step, expected in zip(run.steps, truth.steps, strict=True)]
    assert max(errors) < 1e-4
    assert run.token_ids == truth.token_ids


def error_of_switched(checkpoint: Checkpoint, switched: ModelConfig) -> float:
    """How far the logits are from the checkpoint's where its weights are used as another configuration says; norms and
    biases that this one alone has are ones.
    """
    weights = dict(checkpoint.weights())
    of_ones = {name: np.ones(shape, np.float32) for name, shape in weight_shapes(switched).items()}
    truth = reference_logits(checkpoint.path)
    return relative_error(ReferenceDecoder(switched, (of_ones | weights).items()).logits(PROMPT), truth)


@functools.cache
def reference_logits(folder: Path) -> torch.Tensor:
    """What the reference computes of the prompt by a folder that no longer changes.  # [prompt, vocab]"""
    checkpoint = load_checkpoint(folder)
    return ReferenceDecoder(checkpoint.config, checkpoint.weights()).logits(PROMPT)


def plain_rope(config: ModelConfig, theta: float = 10_000.0, rotary_dim: int | None = None) -> Rope:
    rotary_dim = rotary_dim or config.head_dim
    return Rope(frequencies=tuple(theta ** (-i / rotary_dim) for i in range(0, rotary_dim, 2)))
