"""Tensors in our order: OrderedTensors puts their rows in it, ExpertStacks shows a stack of matrices as one."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.stored_tensors import StoredTensors, TensorsOver

Order = NDArray[np.int64]
"""The row in the file of each of our rows; the rows of a head stay within the head.  # [rows]"""
_STACK_DIMENSIONS = 3


class OrderedTensors(TensorsOver):
    """The tensors of `inner`; those in `orders` have their rows in our order.

    If an order is of all values of a matrix instead of its rows, the tensor is a vector here.
    """

    def __init__(self, inner: StoredTensors, orders: Mapping[str, Order]) -> None:
        super().__init__(inner)
        self._orders = orders

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor."""
        shape = self._inner.shape(name)
        return (math.prod(shape),) if self._is_of_values(name) else shape

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers.  # [rows, …]"""
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
        """Return the first row of the file that some of our rows need, and their rows relative to it."""
        order = self._orders[name][begin:end]
        first = int(order.min(initial=len(self._orders[name])))
        return first, order - first


def gates_before_ups(experts: int, size: int) -> Order:
    """Return the order for all gates of an expert, then all its ups, in a file that interleaves them.

    # [experts * 2 * size]
    """
    expert, up, row = np.ogrid[:experts, :2, :size]
    order: Order = (2 * (size * expert + row) + up).reshape(-1)
    return order


def taps_apart(channels: int, taps: int) -> Order:
    """Return the order for the channels of each tap, in a file that has the taps of each channel.

    # [taps * channels]
    """
    return np.arange(channels * taps).reshape(channels, taps).T.reshape(-1)


def halves_of_heads(num_heads: int, head_dim: int, rotary_dim: int) -> Order:
    """Return the order in which rotary embeddings pair the halves of a head's first `rotary_dim` rows, for a file with
    interleaved rotary embeddings.  # [num_heads * head_dim]
    """
    head = np.arange(head_dim)
    head[:rotary_dim] = head[:rotary_dim].reshape(-1, 2).T.reshape(-1)
    return (np.arange(num_heads)[:, None] * head_dim + head).reshape(-1)


def _halves_of_ends(num_heads: int, head_dim: int, rotary_dim: int) -> Order:
    """Return the same order where the last `rotary_dim` rows of a head turn.  # [num_heads * head_dim]"""
    still = head_dim - rotary_dim
    turning = halves_of_heads(1, rotary_dim, rotary_dim) + still
    rows: Order = np.arange(num_heads)[:, None] * head_dim + np.concatenate([np.arange(still), turning])
    return rows.reshape(-1)


def orders_of_rows(config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> dict[str, Order]:
    """Return the orders of the tensors whose rows have another one in every kind of file.

    They have two of our weights head by head: queries and their gates, and the inputs of the gated delta rule by key
    heads; or are queries and latent vectors whose last parts have interleaved rotary embeddings. `names` are our names
    of the weights in each tensor.
    """
    return _orders_of_packed(config, names) | _orders_of_latents(config, names)


def _orders_of_latents(config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> dict[str, Order]:
    if (latent := config.latent) is None:
        return {}
    orders = {
        "q": _halves_of_ends(config.num_heads, latent.query_dim, latent.turning),
        "kv_down": _halves_of_ends(1, latent.width, latent.turning),
    }
    ends = {tensor: ours[0].rpartition(".")[2] for tensor, ours in names.items() if len(ours) == 1}
    return {tensor: orders[end] for tensor, end in ends.items() if end in orders}


def _orders_of_packed(config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> dict[str, Order]:
    orders = {"q_gate": parts_apart(config.num_heads, config.head_dim, config.head_dim)}
    if delta := config.delta:
        each = delta.value_heads // delta.key_heads
        values = each * delta.value_dim
        orders["delta_z"] = parts_apart(delta.key_heads, delta.key_dim, delta.key_dim, values, values)
        orders["delta_a"] = parts_apart(delta.key_heads, each, each)
    ends = {tensor: ours[1].rpartition(".")[2] for tensor, ours in names.items() if len(ours) == 2}
    return {tensor: orders[end] for tensor, end in ends.items() if end in orders}


def parts_apart(heads: int, *sizes: int) -> Order:
    """Return the order for the first part of all heads, then the second and so on, in a file that has all parts of each
    head together; `sizes` are those of the parts.  # [heads * sum of sizes]
    """
    rows: Order = np.arange(heads * sum(sizes)).reshape(heads, -1)
    return np.concatenate([part.reshape(-1) for part in np.split(rows, np.cumsum(sizes)[:-1], axis=1)])


def heads_by_group(groups: int, heads: int, head_dim: int) -> Order:
    """Return the order for the heads of each group together, in a file that has the first heads of all groups first.

    # [heads * head_dim]
    """
    rows: Order = np.arange(heads * head_dim)
    return rows.reshape(heads // groups, groups, head_dim).swapaxes(0, 1).reshape(-1)


class ExpertStacks(TensorsOver):
    """The tensors of `inner`; stacks of matrices appear as one matrix, with the experts one below the other."""

    def __init__(self, inner: StoredTensors, *, by_inputs: bool) -> None:
        """`by_inputs` says that the files hold the transpose of each matrix."""
        super().__init__(inner)
        self._by_inputs = by_inputs

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor; for a stack it is (experts * outputs, inputs)."""
        if not self._is_stack(name):
            return self._inner.shape(name)
        experts, outputs, inputs = self._dimensions(name)
        return experts * outputs, inputs

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers.  # [rows, …]"""
        if not self._is_stack(name):
            return self._inner.rows(name, begin, end)
        _, outputs, inputs = self._dimensions(name)
        rows: list[NDArray[Any]] = []
        for expert in range(begin // outputs, -(-end // outputs)):
            first = expert * outputs
            matrix = self._inner.rows(name, expert, expert + 1)[0]
            rows.append((matrix.T if self._by_inputs else matrix)[max(begin - first, 0) : min(end - first, outputs)])
        return np.concatenate(rows) if rows else self._inner.rows(name, 0, 0).reshape(0, inputs)

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as they are stored.  # [rows, bytes of a row]"""
        if not self._is_stack(name):
            return self._inner.stored_rows(name, begin, end)
        return np.ascontiguousarray(self.rows(name, begin, end)).view(np.uint8)

    def _is_stack(self, name: str) -> bool:
        return len(self._inner.shape(name)) == _STACK_DIMENSIONS and not name.endswith(".weight")

    def _dimensions(self, name: str) -> tuple[int, int, int]:
        """Return the number of experts, outputs and inputs."""
        experts, outputs, inputs = self._inner.shape(name)
        return (experts, inputs, outputs) if self._by_inputs else (experts, outputs, inputs)
