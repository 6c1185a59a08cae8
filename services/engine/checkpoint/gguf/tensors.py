"""GgufTensors: the tensors of a GGUF model, in one file or split over several."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.quantised.blocks import are_exact
from services.engine.checkpoint.quantised.mxfp4 import scales_of_file, to_bytes
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.checkpoint.stored_tensors import TensorsInFiles
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.gguf.gguf_file import GgufFile

PART_NAME = re.compile(r"(?P<whole>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
"""The name of a file that holds a part of a split model."""

_MOST_FILES = 1024
_MOST_FACTORS = 1 << 13
_MXFP4, _BYTES = "MXFP4", "Q8_0"
_ROWS_AT_ONCE = 1 << 12


class GgufTensors(TensorsInFiles[GgufFile]):
    """The tensors of a model."""

    def __init__(self, file: GgufFile) -> None:
        """Open all parts of the model that begins with `file`; raises CheckpointError naming the file at fault."""
        super().__init__({})
        self._orders: dict[str, NDArray[np.int64]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._fitting: dict[str, bool] = {}  # tensors in MXFP4
        for part in _open_parts(file):
            if twice := self._files.keys() & part.tensors.keys():
                raise CheckpointError(f"{part.path}: tensor {min(twice)!r} is in {self._files[min(twice)].path} too")
            self._files |= dict.fromkeys(part.tensors, part)

    def set_order(self, names: Iterable[str], order: NDArray[np.int64]) -> None:
        """Set the row of the file of each of our rows, for some tensors."""
        self._orders |= dict.fromkeys(names, order)

    def set_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Give a tensor another shape, if that has as many values."""
        if math.prod(self.shape(name)) == math.prod(shape):
            self._shapes[name] = shape

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor; more than two dimensions count as matrices one below the other."""
        *outer, row = self._files[name].tensors[name].shape
        return self._shapes.get(name, (math.prod(outer), row) if outer else (row,))

    def kind(self, name: str) -> str:
        """Return llama.cpp's name for the type of a tensor's blocks; for MXFP4 that fits in bytes, that is Q8_0."""
        stored = self._files[name].tensors[name].kind.name
        return _BYTES if stored == _MXFP4 and self._fits_bytes(name) else stored

    def block_values(self, name: str) -> int:
        """Return how many neighbouring values of a row share a block; 1 if the type has none."""
        return self._files[name].tensors[name].kind.values

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers, dequantised if necessary.  # [rows, …]"""
        kind = self._files[name].tensors[name].kind
        if len(self.shape(name)) > 1:
            return kind.decode(self._file_rows(name, begin, end))
        values: NDArray[Any] = kind.decode(self._files[name].rows(name)).reshape(-1)
        order = self._orders.get(name)
        return (values if order is None else values[order])[begin:end]

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as their kind holds them.  # [rows, bytes of a row]"""
        rows = self._file_rows(name, begin, end)
        return rows if self.kind(name) == self._files[name].tensors[name].kind.name else to_bytes(rows)

    def _file_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as the file holds them, in our order; a quantised vector's blocks stay in the file's order.

        # [rows, bytes of a row]
        """
        rows, kind = self._files[name].rows(name), self._files[name].tensors[name].kind
        order = self._orders.get(name)
        if len(self.shape(name)) == 1:
            rows = rows.reshape(-1, kind.size)  # a block of values counts as a row
            begin, end = begin // kind.values, -(-end // kind.values)
            order = order if kind.values == 1 else None
        return rows[begin:end] if order is None else rows[order[begin:end]]

    def _fits_bytes(self, name: str) -> bool:
        """Return whether Q8_0 holds a matrix in MXFP4 exactly; reads the whole matrix the first time."""
        if name not in self._fitting:
            rows = self._files[name].rows(name)
            pieces = (rows[first : first + _ROWS_AT_ONCE] for first in range(0, len(rows), _ROWS_AT_ONCE))
            self._fitting[name] = all(are_exact(scales_of_file(piece)).all() for piece in pieces)
        return self._fitting[name]

    def factors(self, name: str) -> list[float] | None:
        """Return the numbers of a short vector, None if it is absent; raises CheckpointError for a larger tensor."""
        if name not in self:
            return None
        if len(shape := self.shape(name)) != 1 or shape[0] > _MOST_FACTORS:
            raise CheckpointError(f"{self.path(name)}: tensor {name!r} has shape {[*shape]}; it must be a short vector")
        factors: list[float] = to_float32(self.rows(name, 0, shape[0])).tolist()
        return factors


def _open_parts(first: GgufFile) -> list[GgufFile]:
    """Open all files of a split model, whose names end in -00001-of-00003.gguf and so on, or the one of a whole model.

    Raises CheckpointError for a missing part and for parts that do not fit together.
    """
    count = first.metadata.index("split.count", _MOST_FILES + 1) or 1
    if count == 1:
        return [first]
    name = PART_NAME.fullmatch(first.path.name)
    if name is None or int(name["count"]) != count:
        raise first.metadata.error(
            "split.count", f"is {count}, but the file's name does not end in -of-{count:05}.gguf"
        )
    if first.metadata.index("split.no", count) != 0:
        start = f"{name['whole']}-00001-of-{count:05}.gguf"
        raise CheckpointError(f"{first.path}: is a later part of a split model; name its first one, {start}")
    paths = [first.path.with_name(f"{name['whole']}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1)]
    parts = [first, *map(GgufFile, paths[1:])]
    for number, part in enumerate(parts):
        if (found := part.metadata.index("split.no", count)) != number:
            raise part.metadata.error("split.no", f"must be {number}, by the file's name, is {found}")
    total, found = first.metadata.index("split.tensors.count", 2**31), sum(len(part.tensors) for part in parts)
    if total not in (None, found):
        raise first.metadata.error("split.tensors.count", f"is {total}, but the {count} files hold {found} tensors")
    return parts
