"""PackedMatrix: one matrix of weights in a quantised checkpoint."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class PackedMatrix(Protocol):
    """A matrix [out, in] that is stored in several tensors of a file."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the tensors, the largest first."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""

    @property
    def kind(self) -> str:
        """The type of blocks that holds the matrix exactly, "F32" if none does."""

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Return rows as numbers.  # [rows, in]"""

    def blocks(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows in blocks of `kind`.  # [rows, bytes of a row]"""
