"""OrderedTensors: tensors whose rows a file has in another order than ours."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.stored_tensors import StoredTensors, TensorsOver

Order = NDArray[np.int64]
"""The row in the file of each of our rows, all of a head's within it."""


class OrderedTensors(TensorsOver):
    """The tensors of `inner`, the rows of those that `orders` names in our order.

    One whose order is of all values is a vector here, which the file holds as a matrix.
    """

    def __init__(self, inner: StoredTensors, orders: Mapping[str, Order]) -> None:
        super().__init__(inner)
        self._orders = orders

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor."""
        shape = self._inner.shape(name)
        return (math.prod(shape),) if self._is_of_values(name) else shape

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers."""
        if name not in self._orders:
            return self._inner.rows(name, begin, end)
        if self._is_of_values(name):
            return self._inner.rows(name, 0, self._inner.shape(name)[0]).reshape(-1)[self._orders[name][begin:end]]
        first, order = self._place(name, begin, end)
        return self._inner.rows(name, first, first + int(order.max(initial=-1)) + 1)[order]

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as they are stored.  # [rows, bytes of a row]"""
        if name not in self._orders:
            return self._inner.stored_rows(name, begin, end)
        if self._is_of_values(name):
            stored = self._inner.stored_rows(name, 0, self._inner.shape(name)[0])
            return stored.reshape(len(self._orders[name]), -1)[self._orders[name][begin:end]]
        first, order = self._place(name, begin, end)
        return self._inner.stored_rows(name, first, first + int(order.max(initial=-1)) + 1)[order]

    def _is_of_values(self, name: str) -> bool:
        return name in self._orders and len(self._orders[name]) != self._inner.shape(name)[0]

    def _place(self, name: str, begin: int, end: int) -> tuple[int, Order]:
        """The first row of the file that some of our rows need, and where they lie from there on."""
        order = self._orders[name][begin:end]
        first = int(order.min(initial=len(self._orders[name])))
        return first, order - first


def gates_before_ups(experts: int, size: int) -> Order:
    """Return the row in the file, where the gates and ups of each expert come by turns, of each row of all gates of an
    expert, then all its ups.
    """
    expert, up, row = np.ogrid[:experts, :2, :size]
    order: Order = (2 * (size * expert + row) + up).reshape(-1)
    return order


def taps_apart(channels: int, taps: int) -> Order:
    """Return the value in the file, which has the taps of each channel, of each value of one tap after the other."""
    return np.arange(channels * taps).reshape(channels, taps).T.reshape(-1)


def halves_of_heads(num_heads: int, head_dim: int, rotary_dim: int) -> Order:
    """Return the row in the file, where neighbours turn together, of each row of a head-by-head matrix, where the
    halves of a head's first `rotary_dim` rows do.
    """
    head = np.arange(head_dim)
    head[:rotary_dim] = head[:rotary_dim].reshape(-1, 2).T.reshape(-1)
    return (np.arange(num_heads)[:, None] * head_dim + head).reshape(-1)
