"""open_regular: opens a file of untrusted origin without blocking."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """The path is not a regular file but a pipe, a device or a folder."""


def open_regular(path: Path, *, buffering: int = -1) -> BinaryIO:
    """Open a regular file, or a link to one, for reading; raises NotRegularError for anything else, and OSError.

    A plain `open` would block forever on a pipe without a writer, and a device may have no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularError(f"{path}: is not a regular file")
    return os.fdopen(descriptor, "rb", buffering=buffering)
