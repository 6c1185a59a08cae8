"""IntegerMatrix: integers with a scale for each group of inputs, whatever tool stored them."""

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.blocks import BLOCK, are_exact, fitting_kind, to_blocks

Numbers = Callable[[int, int], NDArray[np.int16]]
"""The integers of some rows, with zero points subtracted.  # [rows, in]"""
Scales = Callable[[int, int], NDArray[np.float32]]
"""The scales of some rows.  # [rows, groups]"""
Groups = Callable[[], NDArray[np.int64]]
"""The group of each input.  # [in]"""

_Number = TypeVar("_Number", bound=np.generic)

VALUES = "F32"
"""The kind of a matrix that is dequantised."""


class IntegerMatrix:
    """A weight is its integer times the scale of its output feature and group."""

    def __init__(
        self,
        parts: tuple[str, ...],
        shape: tuple[int, int],
        *,
        numbers: Numbers,
        scales: Scales,
        extremes: Callable[[], tuple[int, int]],
        group_of: Groups,
    ) -> None:
        """`extremes` returns the least and the greatest possible integer."""
        self.parts = parts
        self.shape = shape
        self._numbers = numbers
        self._scales = scales
        self._extremes = extremes
        self._group_of = group_of

    @cached_property
    def kind(self) -> str:
        """The type of blocks that holds the matrix exactly, "F32" if none does."""
        groups = self._group_of()[: self.shape[1] // BLOCK * BLOCK].reshape(-1, BLOCK)
        if self.shape[1] % BLOCK or not (groups == groups[:, :1]).all():
            return VALUES
        is_exact = are_exact(self._scales(0, self.shape[0])).all()
        return (fitting_kind(*self._extremes()) or VALUES) if is_exact else VALUES

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Return rows as numbers.  # [rows, in]"""
        numbers = self._numbers(begin, end).astype(np.float32)
        return numbers * of_inputs(self._scales(begin, end), self._group_of())

    def blocks(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows in blocks of `kind`.  # [rows, bytes of a row]"""
        scales = of_inputs(self._scales(begin, end), self._group_of()[::BLOCK]).astype(np.float16)
        return to_blocks(self.kind, self._numbers(begin, end).astype(np.int8), scales)


def of_inputs(values: NDArray[_Number], group_of: NDArray[np.int64]) -> NDArray[_Number]:
    """Return the value of each input's group, in row-major order.  # [rows, groups] -> [rows, in]"""
    return np.take(values, group_of, axis=1)  # indexing would return column-major order, which is slow later


def even_groups(in_features: int, group_size: int) -> Groups:
    """Return a function for the group of each input, for groups of `group_size` neighbours."""
    return lambda: np.arange(in_features) // group_size
