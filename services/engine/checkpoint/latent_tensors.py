"""LatentTensors: each head's matrices of keys and values, which folders have in one tensor for all heads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import LatentAttention
from services.engine.checkpoint.safetensors_file import FLOATS, to_float32
from services.engine.checkpoint.stored_tensors import StoredTensors, TensorsOver
from services.engine.files.checkpoint_error import CheckpointError

_BOTH = "kv_b_proj.weight"
_KEYS, _VALUES = " (keys)", " (values)"  # after the name of the tensor of both
_DEQUANTISED = "F32"


class LatentTensors(TensorsOver):
    """The tensors of `inner`, with two in the place of each of keys and values: for all heads in turn, the matrix that
    makes keys of latent vectors, transposed, and the one that makes values.
    """

    def __init__(self, inner: StoredTensors, shape: LatentAttention, num_heads: int) -> None:
        super().__init__(inner)
        self._shape = shape
        self._num_heads = num_heads

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return whole_name(name) in self._inner if _is_part(name) else name in self._inner and not name.endswith(_BOTH)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tensors."""
        for name in self._inner:
            if name.endswith(_BOTH):
                yield name + _KEYS
                yield name + _VALUES
            else:
                yield name

    def path(self, name: str) -> Path:
        """Return the file that holds a tensor."""
        return self._inner.path(whole_name(name))

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid."""
        self._inner.release(whole_name(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor; raises CheckpointError for one of both that has another than it must have."""
        found = self._inner.shape(whole_name(name))
        if not _is_part(name):
            return found
        expected = (self._num_heads * (self._shape.key_dim + self._shape.value_dim), self._shape.rank)
        if found != expected:
            raise CheckpointError(
                f"{self.path(name)}: tensor {whole_name(name)!r} has shape {[*found]}; by config.json it must be "
                f"{[*expected]}"
            )
        return self._num_heads * self._rows_of_head(name), self._shape.key_dim if _are_keys(name) else self._shape.rank

    def kind(self, name: str) -> str:
        """Return the type in which a tensor's values are stored; quantised ones are dequantised when they are apart."""
        kind = self._inner.kind(whole_name(name))
        return kind if not _is_part(name) or kind in FLOATS else _DEQUANTISED

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers.  # [rows, …]"""
        if not _is_part(name):
            return self._inner.rows(name, begin, end)
        each = self._rows_of_head(name)
        heads = [self._head(name, head) for head in range(begin // each, -(-end // each))]
        first = begin // each * each
        return np.concatenate(heads)[begin - first : end - first]

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as they are stored.  # [rows, bytes of a row]"""
        if not _is_part(name):
            return self._inner.stored_rows(name, begin, end)
        return np.ascontiguousarray(self.rows(name, begin, end)).view(np.uint8)

    def _rows_of_head(self, name: str) -> int:
        return self._shape.rank if _are_keys(name) else self._shape.value_dim

    def _head(self, name: str, head: int) -> NDArray[Any]:
        """Return one head's matrix."""
        first = head * (self._shape.key_dim + self._shape.value_dim)
        middle, last = first + self._shape.key_dim, first + self._shape.key_dim + self._shape.value_dim
        values = self._inner.rows(whole_name(name), *((first, middle) if _are_keys(name) else (middle, last)))
        values = values if self._inner.kind(whole_name(name)) in FLOATS else to_float32(values)
        return values.T if _are_keys(name) else values


def whole_name(name: str) -> str:
    """Return the tensor of the files that a name is, or is a part of."""
    return name.removesuffix(_KEYS).removesuffix(_VALUES)


def _is_part(name: str) -> bool:
    return name.endswith((_KEYS, _VALUES))


def _are_keys(name: str) -> bool:
    return name.endswith(_KEYS)
