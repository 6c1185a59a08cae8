"""FileState: tells whether a file has changed, without reading it."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class FileState:
    """Times are in nanoseconds; every write changes `changed`, which no program can set."""

    path: str
    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> "FileState":
        """Return the state of a file with this status; links in the path are resolved."""
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @property
    def is_current(self) -> bool:
        """Whether the file is in this state now."""
        path = Path(self.path)
        try:
            return FileState.of(path, path.stat()) == self
        except OSError:
            return False
