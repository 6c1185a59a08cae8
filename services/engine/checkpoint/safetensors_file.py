"""SafetensorsFile: the tensors of one safetensors file, as views of its memory map.

The header is read here rather than by the safetensors library, which takes the last of two tensors of one name and
reports neither a tensor's offset nor which tensor has a shape that does not fit its bytes. Tests compare the two.
"""

import json
import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import shown
from services.engine.files.model_file import MIB, map_model_file

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),  # the bits: NumPy has no bfloat16
    "F8_E4M3": np.dtype("u1"),  # the bits
    "I8": np.dtype("i1"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
    # No weight may have these types, but buffers that nothing needs do.
    "BOOL": np.dtype("u1"),
    "F64": np.dtype("<f8"),
    "F8_E5M2": np.dtype("u1"),
    "F8_E8M0": np.dtype("u1"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
}
FLOATS = ("F32", "F16", "BF16")
"""The types of values that have no scales."""
_PREFIX_BYTES = 8
_MOST_HEADER_BYTES = 8 * MIB  # some fifty thousand tensors: the largest dense models have a few thousand
_MOST_DIMENSIONS = 8
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The header's entry of one tensor; offsets are in bytes from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile:
    """One validated file; the format is described at https://github.com/huggingface/safetensors#format."""

    def __init__(self, path: Path) -> None:
        """Map the file and check its whole header; raises CheckpointError naming the file and the tensor."""
        self.path = path
        self._map, self.state = map_model_file(path)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)
        header = self._read_header()
        self._data = self._bytes[_PREFIX_BYTES + self._header_bytes() :]
        self._tensors = {name: self._parse(name, entry) for name, entry in header.items() if name != "__metadata__"}
        self._check_layout()

    def __contains__(self, name: str) -> bool:
        """Whether the file holds a tensor of this name."""
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tensors."""
        return iter(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor without touching its data."""
        return self._tensors[name].shape

    def dtype(self, name: str) -> str:
        """Return the type of one tensor's values, as the format names it."""
        return self._tensors[name].dtype

    def tensor(self, name: str) -> NDArray[Any]:
        """Return one tensor as a read-only view (a copy only where the file leaves it misaligned)."""
        info = self._tensors[name]
        view = self._data[info.begin : info.end].view(DTYPES[info.dtype]).reshape(info.shape)
        return view if view.flags.aligned else view.copy()

    def release(self, name: str) -> None:
        """Release the memory that reading one tensor has taken; views stay valid, and are read again when used."""
        info, header = self._tensors[name], len(self._bytes) - len(self._data)
        begin = (header + info.begin) // mmap.PAGESIZE * mmap.PAGESIZE
        if length := header + info.end - begin:
            self._map.madvise(mmap.MADV_DONTNEED, begin, length)

    def _header_bytes(self) -> int:
        return int.from_bytes(self._bytes[:_PREFIX_BYTES].tobytes(), "little")

    def _read_header(self) -> dict[str, Any]:
        if len(self._bytes) < _PREFIX_BYTES:
            raise CheckpointError(f"{self.path}: truncated, {len(self._bytes)} bytes hold no safetensors header")
        size = self._header_bytes()
        if size > len(self._bytes) - _PREFIX_BYTES:
            raise CheckpointError(
                f"{self.path}: truncated, or not safetensors: "
                f"the header claims {size} bytes of a file of {len(self._bytes)}"
            )
        if size > _MOST_HEADER_BYTES:
            raise CheckpointError(f"{self.path}: the header has {size} bytes; it may have at most {_MOST_HEADER_BYTES}")
        text = self._bytes[_PREFIX_BYTES : _PREFIX_BYTES + size].tobytes()
        try:
            header = json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{self.path}: the header is not valid JSON: {error}") from error
        if not isinstance(header, dict):
            raise CheckpointError(f"{self.path}: the header is not a JSON object")
        return header

    def _parse(self, name: str, entry: object) -> TensorInfo:
        where = f"{self.path}: tensor {shown(name)}"
        if not isinstance(entry, dict):
            raise CheckpointError(f"{where}: the header's entry is not an object")
        dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise CheckpointError(f"{where}: dtype {shown(dtype)} is not supported; allowed are {', '.join(DTYPES)}")
        if not _is_counts(shape) or len(shape) > _MOST_DIMENSIONS:
            raise CheckpointError(f"{where}: shape {shown(shape)} is not a list of at most {_MOST_DIMENSIONS} counts")
        if not _is_counts(offsets) or len(offsets) != 2:
            raise CheckpointError(f"{where}: data_offsets {shown(offsets)} is not a pair of byte positions")
        begin, end = offsets
        expected = math.prod(shape) * DTYPES[dtype].itemsize
        if end - begin != expected:
            raise CheckpointError(f"{where}: {dtype} of shape {shape} takes {expected} bytes, not {end - begin}")
        if end > len(self._data):
            raise CheckpointError(
                f"{where}: ends at byte {end} of the data, but the file holds {len(self._data)}: truncated"
            )
        return TensorInfo(dtype, tuple(shape), begin, end)

    def _check_layout(self) -> None:
        """Raise CheckpointError unless the tensors fill the data exactly, as the format demands."""
        position = 0
        for name, info in sorted(self._tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
            if info.begin != position:
                fault = "overlaps the tensor before it" if info.begin < position else "leaves a hole before it"
                raise CheckpointError(f"{self.path}: tensor {name!r}: begins at byte {info.begin} and {fault}")
            position = info.end
        if position != len(self._data):
            raise CheckpointError(
                f"{self.path}: {len(self._data) - position} bytes after the last tensor belong to none"
            )


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Widen a tensor of any dtype in FLOATS, exactly."""
    if values.dtype == DTYPES["BF16"]:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _is_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= _LARGEST_COUNT for item in value)
