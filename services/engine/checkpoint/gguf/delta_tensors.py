"""DeltaTensors: the weights of the gated delta rule in a GGUF file, in the layout of a folder.

llama.cpp's conversion of Qwen 3.5 reorders the value heads: a folder has those of one key head together, a file the
first of every key head, then the second. Any conversion stores -exp(A_log) in the place of A_log.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.gguf.tensors import GgufTensors
from services.engine.checkpoint.model_config import GatedDelta
from services.engine.checkpoint.ordered_tensors import Order, heads_by_group
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.checkpoint.stored_tensors import TensorsOver

_VALUES = "F32"


class DeltaTensors(TensorsOver):
    """The tensors of a file whose layers with a state all have the shape `delta`.

    Reordering the columns of an output matrix keeps its blocks if each lies within a head; otherwise its values are
    dequantised.
    """

    def __init__(
        self, inner: GgufTensors, delta: GatedDelta, names: Mapping[str, tuple[str, ...]], *, groups: int
    ) -> None:
        """Set the orders of rows in `inner`; `names` are our names of the weights in each tensor.

        The file has the first value head of each of `groups`, then the second; with one group it has a folder's order.
        """
        super().__init__(inner)
        self._delta, self._file, self._groups = delta, inner, groups
        weights = {tensor: ours[0].split(".")[2] for tensor, ours in names.items() if ".delta_" in ours[0]}
        held = {tensor: weight for tensor, weight in weights.items() if tensor in inner}
        self._decays = {tensor for tensor, weight in held.items() if weight == "delta_decay"}
        outputs = {tensor for tensor, weight in held.items() if weight == "delta_out" and self._fits(tensor)}
        self._reordered = outputs if groups not in (1, delta.value_heads) else set()
        for weight, order in _orders(delta, groups).items():
            mine = [tensor for tensor, each in held.items() if each == weight]
            inner.set_order([tensor for tensor in mine if inner.shape(tensor)[0] == len(order)], order)
        shape, convolutions = (delta.num_channels, delta.taps), [each for each in held if held[each] == "delta_conv"]
        if fitting := [tensor for tensor in convolutions if inner.shape(tensor) == shape]:  # else it may be huge
            inner.set_order(fitting, _order_of_taps(delta, groups))

    def _fits(self, tensor: str) -> bool:
        return self._inner.shape(tensor)[-1] == self._delta.value_heads * self._delta.value_dim

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor."""
        return self._inner.shape(name)

    def kind(self, name: str) -> str:
        """Return the type in which a tensor's values are stored, or that of those that had to be dequantised."""
        return _VALUES if self._is_dequantised(name) else self._inner.kind(name)

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers.  # [rows, …]"""
        values = self._inner.rows(name, begin, end)
        if name in self._decays:
            with np.errstate(divide="ignore", invalid="ignore"):  # a damaged value may be positive
                return np.log(-to_float32(values))
        return self._in_our_columns(values) if name in self._reordered else values

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as they are stored.  # [rows, bytes of a row]"""
        if self._is_dequantised(name):
            return np.ascontiguousarray(self.rows(name, begin, end)).view(np.uint8)
        stored = self._inner.stored_rows(name, begin, end)
        return self._in_our_columns(stored) if name in self._reordered else stored

    def _in_our_columns(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Reorder the value heads along rows, of values or of bytes.  # [rows, …] -> [rows, …]"""
        each = self._delta.value_heads // self._groups
        return rows.reshape(len(rows), each, self._groups, -1).swapaxes(1, 2).reshape(len(rows), -1)

    def _is_dequantised(self, name: str) -> bool:
        return name in self._reordered and self._delta.value_dim % self._file.block_values(name) != 0


def _orders(delta: GatedDelta, groups: int) -> dict[str, Order]:
    """Return the file's row of each of our rows, by the name of the weight."""
    heads = heads_by_group(groups, delta.value_heads, 1)
    values, channels = heads_by_group(groups, delta.value_heads, delta.value_dim), _channels(delta, groups)
    return {
        **{"delta_qkv": channels, "delta_z": values, "delta_b": heads, "delta_a": heads},
        **{"delta_decay": heads, "delta_decay_bias": heads},
    }


def _order_of_taps(delta: GatedDelta, groups: int) -> Order:
    """Return the file's value of each of ours, where it has the taps of each channel.  # [taps * channels]"""
    order: Order = (_channels(delta, groups) * delta.taps + np.arange(delta.taps)[:, None]).reshape(-1)
    return order


def _channels(delta: GatedDelta, groups: int) -> Order:
    """Return the file's channel of each of ours: queries, keys, and reordered values.  # [channels]"""
    before = 2 * delta.key_heads * delta.key_dim
    values = heads_by_group(groups, delta.value_heads, delta.value_dim)
    return np.concatenate([np.arange(before), before + values])
