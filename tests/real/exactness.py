"""Exactness: how far our logits, and those of transformers, are from the same model's in float64."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from services.engine.text.tokenizer import Tokenizer
from tests.real.parity import load_reference, logits_of, our_logits
from tests.real.texts import SHORT_TEXTS

Logits = list[NDArray[Any]]


def exactness_rows(path: Path, *, num_prompts: int) -> Iterator[str]:
    """Yield a row for each of both, and one for the difference between them.

    The reference takes eight bytes for each parameter.
    """
    prompts = [*map(Tokenizer.from_model(path).encode, SHORT_TEXTS[-num_prompts:])]
    model = load_reference(path)
    theirs = [*logits_of(model, prompts)]
    with _float64():
        model.double()
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
        exact = [*logits_of(model, prompts)]
    del model
    ours = [*our_logits(path, prompts)]
    yield _row("ours from float64", ours, exact)
    yield _row("transformers' from float64", theirs, exact)
    yield _row("ours from transformers'", ours, theirs)


def _row(name: str, found: Logits, wanted: Logits) -> str:
    errors = np.concatenate([np.subtract(*pair, dtype=np.float64).ravel() for pair in zip(found, wanted, strict=True)])
    largest = max(float(np.abs(each).max()) for each in wanted)
    return f"| {name} | {np.abs(errors).max():.1e} | {np.sqrt(np.mean(errors**2)):.1e} | {largest:.1f} |"


@contextmanager
def _float64() -> Iterator[None]:
    """What transformers computes in float32 whatever a model's type, norms, angles and softmax, is in float64 too."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch, "float32", torch.float64))
        stack.enter_context(patch.object(torch, "float", torch.float64))
        stack.enter_context(patch.object(torch.Tensor, "float", torch.Tensor.double))
        yield
