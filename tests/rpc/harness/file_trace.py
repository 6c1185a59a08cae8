"""FileTrace: which source files of the services a running server enters, in order."""

import inspect
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import services

_FOLDER = Path(services.__file__).parent


class FileTrace:
    """Make it before the server, whose threads it watches, and set `is_recording` for as long as it is to note."""

    def __init__(self) -> None:
        self.is_recording = False
        self.entries: dict[str, str] = {}
        """For each file the function that it was entered by first."""
        threading.settrace(self._note)

    def close(self) -> None:
        """Threads that begin from now on are watched no more."""
        self.is_recording = False
        threading.settrace(None)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        """Called for each function that begins; what a module runs when it is imported is none."""
        if self.is_recording and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(_FOLDER):
                self.entries.setdefault(str(path.relative_to(_FOLDER)), frame.f_code.co_qualname)
