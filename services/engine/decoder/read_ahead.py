"""ReadAhead: a file brought from the disk into memory before it is needed."""

import contextlib
import threading
from pathlib import Path

from services.engine.files.regular_file import open_regular

_AT_ONCE = 4 << 20  # bytes


class ReadAhead:
    """A context in which a thread of its own reads a file once, from its beginning, and keeps nothing of it: the system
    does, for whoever reads it next. Files that cannot be read are left to that one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)

    def __enter__(self) -> "ReadAhead":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        buffer = bytearray(_AT_ONCE)
        with contextlib.suppress(OSError), open_regular(self._path, buffering=0) as file:
            while not self._ended.is_set() and file.readinto(buffer):  # type: ignore[attr-defined]
                pass
