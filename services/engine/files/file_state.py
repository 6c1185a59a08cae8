"""FileState: what tells whether a file is still the same, without reading it."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class FileState:
    """Times are in nanoseconds; no program can set `changed`, and every write moves it."""

    path: str
    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> "FileState":
        """The state that `status` describes, under the path that all links lead to."""
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    @property
    def is_current(self) -> bool:
        """Whether the file is in this state now."""
        path = Path(self.path)
        try:
            return FileState.of(path, path.stat()) == self
        except OSError:
            return False
