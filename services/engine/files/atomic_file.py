"""atomic_file: writes a file that appears under its name only when it is complete and on disk."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be written under the name `path`; after an error in the block nothing is left of it.

    Only one process writes at a time; it overwrites the remains of a process that was killed. Raises OSError, in
    particular BlockingIOError while another process writes.
    """
    part = path.with_name(f"{path.name}.part")
    with part.open("ab") as file:
        _lock(file, part)
        file.truncate(0)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    _sync(path.parent)


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError("another process is writing it") from error
    if not _is_named(file, path):  # the process that held the lock has renamed the file
        raise BlockingIOError("another process has just written it")


def _is_named(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _sync(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
