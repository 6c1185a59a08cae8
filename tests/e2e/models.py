"""The models of the end-to-end tests: the demo target, and one random checkpoint per architecture."""

import functools
import hashlib
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / ".matrix"
DEMO_TARGET = ROOT / "models" / "demo" / "target"
DEMO_DRAFT = ROOT / "models" / "demo" / "draft"
_RECIPE = ROOT / "tests" / "checkpoints.py"


@functools.cache
def folder(model: str) -> Path:
    """The checkpoint of a model; a random one is written once for each version of its recipe."""
    if model == "demo":
        return DEMO_TARGET
    digest = hashlib.sha256(_RECIPE.read_bytes()).hexdigest()[:12]
    path = MATRIX / "checkpoints" / digest / model
    if not path.exists():
        _write(model, path)
    return path


def _write(model: str, path: Path) -> None:
    from tests.checkpoints import Kind, write_random_checkpoint  # slow to import, and not needed by servers

    draft = path.with_name(f"{model}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    write_random_checkpoint(draft, Kind(model))
    try:
        draft.rename(path)
    except OSError:
        if not path.exists():
            raise
        shutil.rmtree(draft)  # another process was faster
