"""Kept weights: the folder in which `outrider up` keeps packed weights if no other is named."""

import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from services.engine.config import resolve_cache_folder

_LEAST = 200 << 20  # bytes of models below which packing takes no time worth a file
_ROOM = 4  # times the models' bytes that must be free on the disk
_LONGEST_UNUSED = 30 * 24 * 3600.0  # seconds: each build writes files of its own, which nobody reads after the next


def folder_for(models: Iterable[Path]) -> Path | None:
    """Return the folder for these models' packed weights; None if they are small, or if the disk has no room."""
    folder, size = resolve_cache_folder() / "weights", sum(map(_size, models))
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return folder if size >= _LEAST and shutil.disk_usage(existing).free >= _ROOM * size else None


def remove_unused(folder: Path) -> None:
    """Remove files, complete or not, that nobody has read or written for a month."""
    oldest = time.time() - _LONGEST_UNUSED
    for file in folder.glob("*.packed*"):
        with suppress(OSError):  # another process may remove it, too
            if file.stat().st_mtime < oldest:
                file.unlink()


def _size(model: Path) -> int:
    """Return the bytes of a file, or of the files of a folder; none of what is not there, which its service refuses."""
    files = [*model.iterdir()] if model.is_dir() else [model]
    return sum(file.stat().st_size for file in files if file.is_file())
