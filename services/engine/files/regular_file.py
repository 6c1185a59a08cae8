"""open_regular: a file that strangers may have put there, opened without waiting for anything."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """A pipe, a device, a folder: what is opened like a file, and is none."""


def open_regular(path: Path, *, buffering: int = -1) -> BinaryIO:
    """Open a regular file, or a link to one, for reading; raises NotRegularError for anything else, and OSError.

    A pipe without a writer would hold up a plain `open` for ever, and a device may have no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularError(f"{path}: is not a regular file")
    return os.fdopen(descriptor, "rb", buffering=buffering)
