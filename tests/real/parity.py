"""Parity: the logits of a published model are those that transformers computes, in float32."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gguf
import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from services.engine.config import EngineConfig, resolve_isa, resolve_threads
from services.engine.decoder.native import Batch
from services.engine.loaded_model import LoadedModel
from services.engine.text.tokenizer import Tokenizer
from tests.real.texts import SHORT_TEXTS

MOST = 1e-4  # of what the logits may differ, as a share of the largest
_MOST_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Parity:
    """How far the logits of all positions are from the reference's; the largest of them for comparison."""

    num_prompts: int
    num_tokens: int
    largest_difference: float
    largest_logit: float
    other_choices: int  # positions at which another token is the most likely

    @property
    def is_close(self) -> bool:
        """Whether the models are the same, but for the order in which sums are taken."""
        return self.other_choices == 0 and self.largest_difference <= MOST * self.largest_logit


def measure_parity(path: Path, num_prompts: int = len(SHORT_TEXTS)) -> Parity:
    """Compare a folder or a GGUF file with what transformers makes of it, one after the other in memory."""
    prompts = [ids[:_MOST_TOKENS] for ids in map(Tokenizer.from_model(path).encode, SHORT_TEXTS[:num_prompts])]
    expected = [*logits_of(load_reference(path), prompts)]
    differences, largest, others = [0.0], [0.0], 0
    for found, wanted in zip(our_logits(path, prompts), expected, strict=True):
        differences.append(float(np.abs(found - wanted).max()))
        largest.append(float(np.abs(wanted).max()))
        others += int((found.argmax(axis=1) != wanted.argmax(axis=1)).sum())
    return Parity(len(prompts), sum(map(len, prompts)), max(differences), max(largest), others)


def load_reference(path: Path) -> Any:
    """The model as transformers makes it of a folder or a GGUF file, in float32."""
    if path.is_dir():
        return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    with _read_once():
        return transformers.AutoModelForCausalLM.from_pretrained(
            path.parent,
            gguf_file=path.name,
            quantization_config=transformers.GgufConfig(gguf_file=path.name, dequantize=True),
            dtype=torch.float32,
        )


@contextmanager
def _read_once() -> Iterator[None]:
    """Let transformers read a GGUF file once, of a plain array, and make each table of names once.

    By itself it makes the table anew for each module, and reads the file twice, of an array that is slow to index.
    """
    mapped = np.memmap
    with (
        patch.object(gguf, "GGUFReader", functools.cache(gguf.GGUFReader)),
        patch.object(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map)),
        patch.object(np, "memmap", lambda file, **options: np.asarray(mapped(file, **options))),
    ):
        yield


def logits_of(model: Any, prompts: list[list[int]]) -> Iterator[NDArray[Any]]:
    """Of every position, by a model of transformers.  # [tokens, vocab]"""
    with torch.inference_mode():
        for prompt in prompts:
            yield model(torch.tensor([prompt])).logits[0].numpy()


def our_logits(path: Path, prompts: list[list[int]]) -> Iterator[NDArray[np.float32]]:
    """Of every position.  # [tokens, vocab]"""
    config = EngineConfig(
        model=path,
        isa=resolve_isa(),
        threads=resolve_threads(),
        weights="f32",
        kv="f32",
        max_sequences=1,
        context_length=_MOST_TOKENS,
    )
    model = LoadedModel.load(config)
    for prompt in prompts:
        batch = Batch(max_rows=len(prompt), max_sequences=1, max_blocks=model.max_blocks)
        batch.append(prompt, position=0, blocks=range(model.max_blocks), num_logits=len(prompt))
        yield model.decoder.forward(batch).logits.numpy()
