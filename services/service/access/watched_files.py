"""WatchedFiles: a value read from files that may be replaced while a service runs."""

import logging
import os
from collections.abc import Callable
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Generic, TypeVar

from services.engine.config import ConfigError
from services.engine.files.regular_file import open_regular

logger = logging.getLogger(__name__)

Value = TypeVar("Value")
_MOST_BYTES = 1 << 20  # of one file
_State = tuple[int, ...]


class WatchedFiles(Generic[Value]):
    """Files that are reloaded after one of them has changed; if they are invalid then, the previous value stays in use.

    Each access to the value checks the files, on the caller's thread: there is nothing to start or stop.
    """

    def __init__(self, paths: Seq[Path], read: Callable[[Seq[bytes]], Value]) -> None:
        """`read` makes the value from the files' contents and raises ConfigError if they are invalid; so does this."""
        self._paths = tuple(paths)
        self._read = read
        self._seen = self._states()
        self._contents = self._load()
        self._value = read(self._contents)

    @property
    def value(self) -> Value:
        """The value of the files as they are now, or as they were when they were last valid."""
        if (states := self._states()) != self._seen:
            self._seen = states
            self._update()
        return self._value

    def _update(self) -> None:
        names = " and ".join(map(str, self._paths))
        try:
            contents = self._load()
            if contents == self._contents:
                return
            self._value, self._contents = self._read(contents), contents
        except ConfigError as error:
            logger.warning("%s changed, but the previous contents stay in use: %s", names, error)
        else:
            logger.info("%s changed and was reloaded", names)

    def _load(self) -> list[bytes]:
        return [read_small_file(path) for path in self._paths]

    def _states(self) -> list[_State | None]:
        return [_state(path) for path in self._paths]


def read_small_file(path: Path) -> bytes:
    """Return a file's contents; raises ConfigError if it is not a regular file, too large, or unreadable."""
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}: is larger than {_MOST_BYTES} bytes")
    return data


def _state(path: Path) -> _State | None:
    """Return a state of the file that every write and every replacement changes, or None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
