"""Files of a model folder: only regular files are opened, and only up to a given size."""

import mmap
import os
from pathlib import Path
from typing import BinaryIO

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.file_state import FileState
from services.engine.files.regular_file import NotRegularError, open_regular

MIB = 1 << 20


def open_model_file(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading; raises CheckpointError for anything else."""
    try:
        return open_regular(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file") from error
    except NotRegularError as error:
        raise CheckpointError(str(error)) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be opened: {error}") from error


def map_model_file(path: Path) -> tuple[mmap.mmap, FileState]:
    """Return a whole file, mapped for reading, and its state; raises CheckpointError as `open_model_file` does."""
    with open_model_file(path) as file:
        state = FileState.of(path, os.fstat(file.fileno()))
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), state
        except (OSError, ValueError) as error:  # mmap refuses an empty file with a ValueError
            raise CheckpointError(f"{path}: cannot be mapped: {error}") from error


def read_model_file(path: Path, *, most_bytes: int) -> bytes:
    """Return a file's contents; raises CheckpointError if it is not regular, too large, or unreadable."""
    with open_model_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most_bytes:
            raise CheckpointError(f"{path}: has {size} bytes; it may have at most {most_bytes}")
        try:
            return file.read(most_bytes)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from error


def read_model_text(path: Path, *, most_bytes: int) -> str:
    """Return a file's text; raises CheckpointError as `read_model_file` does, and if it is not UTF-8."""
    try:
        return read_model_file(path, most_bytes=most_bytes).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: cannot be read as UTF-8: {error}") from error
