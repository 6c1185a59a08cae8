"""StoredTensors: the interface to a checkpoint's tensors, for all kinds of files.

TensorsInFiles finds them in one or several files; TensorsOver is a layer over others.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.engine.files.file_state import FileState


class StoredTensors(Protocol):
    """Every tensor by its name in the files. A row lies along the last dimension; that of a vector is one value.

    Rows are in our order, also if the files have another one.
    """

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of this name."""

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tensors."""

    def path(self, name: str) -> Path:
        """Return the file that holds a tensor."""

    def states(self) -> list[FileState]:
        """Return the states in which the files were opened, in the order of their paths."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor."""

    def kind(self, name: str) -> str:
        """Return the type in which a tensor's values are stored, such as "BF16" or "Q4_K"."""

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers: float32, float16, or bfloat16 as uint16 bits; a view if nothing is computed."""

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as they are stored.  # [rows, bytes of a row]"""

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid."""


class TensorFile(Protocol):
    """One file that holds tensors."""

    path: Path
    state: FileState

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid."""


File = TypeVar("File", bound=TensorFile)


class TensorsInFiles(Generic[File]):
    """Every tensor by its name, with the file that holds it; subclasses read their kind of file."""

    def __init__(self, files: dict[str, File]) -> None:
        self._files = files

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tensors."""
        return iter(self._files)

    def path(self, name: str) -> Path:
        """Return the file that holds a tensor."""
        return self._files[name].path

    def states(self) -> list[FileState]:
        """Return the states in which the files were opened, in the order of their paths."""
        return sorted({file.state for file in self._files.values()})

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid."""
        self._files[name].release(name)


class TensorsOver:
    """The tensors of `inner`, unchanged; subclasses override how some are read."""

    def __init__(self, inner: StoredTensors) -> None:
        self._inner = inner

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self._inner

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tensors."""
        return iter(self._inner)

    def path(self, name: str) -> Path:
        """Return the file that holds a tensor."""
        return self._inner.path(name)

    def states(self) -> list[FileState]:
        """Return the states in which the files were opened, in the order of their paths."""
        return self._inner.states()

    def kind(self, name: str) -> str:
        """Return the type in which a tensor's values are stored."""
        return self._inner.kind(name)

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid."""
        self._inner.release(name)
