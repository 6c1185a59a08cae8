"""WatchedFiles: what some files say, which may be replaced while a service runs."""

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
    """Files that are read anew when one of them has changed; where they do not fit then, what they said before holds.

    Whoever asks for the value causes the look at the files, on whichever thread: there is nothing to start or end.
    """

    def __init__(self, paths: Seq[Path], read: Callable[[Seq[bytes]], Value]) -> None:
        """`read` makes a value of what the files hold, and raises ConfigError for what they must not; so does this."""
        self._paths = tuple(paths)
        self._read = read
        self._seen = self._states()
        self._contents = self._load()
        self._value = read(self._contents)

    @property
    def value(self) -> Value:
        """What the files say, or said when they last fitted."""
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
            logger.warning("%s changed, but what was read before still holds: %s", names, error)
        else:
            logger.info("%s changed, and is read anew", names)

    def _load(self) -> list[bytes]:
        return [read_small_file(path) for path in self._paths]

    def _states(self) -> list[_State | None]:
        return [_state(path) for path in self._paths]


def read_small_file(path: Path) -> bytes:
    """Return what a file holds; raises ConfigError where it is not regular, too large, or unreadable."""
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path}: is larger than the {_MOST_BYTES} bytes that it may have")
    return data


def _state(path: Path) -> _State | None:
    """What every write and every replacement changes; None where there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
