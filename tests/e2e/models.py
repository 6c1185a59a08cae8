"""The models of the end-to-end tests: the demo pair, one random checkpoint per architecture, and drafts for them."""

import functools
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / ".matrix"
DEMO_TARGET = ROOT / "models" / "demo" / "target"
DEMO_DRAFT = ROOT / "models" / "demo" / "draft"
_RECIPES = (ROOT / "tests" / "checkpoints.py", Path(__file__))
_BLUR = 0.01


@functools.cache
def folder(model: str) -> Path:
    """The checkpoint of a model; a random one is written once for each version of its recipe."""
    if model == "demo":
        return DEMO_TARGET

    def write(path: Path) -> None:
        from tests.checkpoints import Kind, write_random_checkpoint  # slow to import, and not needed by servers

        write_random_checkpoint(path, Kind(model))

    return _written(model, write)


@functools.cache
def draft_folder(model: str, kind: str) -> Path:
    """The checkpoint of a model's draft: a "good" one is right more often than not, a "random" one hardly ever."""
    if (model, kind) == ("demo", "good"):
        return DEMO_DRAFT
    source = DEMO_DRAFT if model == "demo" else folder(model)

    def write(path: Path) -> None:
        import torch

        from tests.checkpoints import edit_weights

        def edit(tensors: dict[str, torch.Tensor]) -> None:
            generator = torch.Generator().manual_seed(11)
            for name, tensor in tensors.items():
                if kind == "good":
                    noise = torch.randn(tensor.shape, generator=generator)
                    tensors[name] = (tensor * (1 + _BLUR * noise)).to(tensor.dtype)
                else:
                    order = torch.randperm(tensor.numel(), generator=generator)
                    tensors[name] = tensor.flatten()[order].reshape(tensor.shape)

        shutil.copytree(source, path)
        edit_weights(path, edit)

    return _written(f"{model}-{kind}-draft", write)


def _written(name: str, write: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256(b"".join(recipe.read_bytes() for recipe in _RECIPES)).hexdigest()[:12]
    path = MATRIX / "checkpoints" / digest / name
    if path.exists():
        return path
    unfinished = path.with_name(f"{name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    write(unfinished)
    try:
        unfinished.rename(path)
    except OSError:
        if not path.exists():
            raise
        shutil.rmtree(unfinished)  # another process was faster
    return path
