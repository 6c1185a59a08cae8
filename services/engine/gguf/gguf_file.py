"""GgufFile: one mapped, validated GGUF file.

The container is read here rather than by the gguf package, which trusts every count and offset in it, makes an array
for each element of each list, and has no clear errors. Tests compare the two.
"""

import math
import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import shown
from services.engine.files.model_file import map_model_file
from services.engine.gguf.block_types import BLOCK_TYPES, BlockType, type_name
from services.engine.gguf.header_reader import HeaderReader
from services.engine.gguf.metadata import Metadata

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_ALIGNMENT, _MOST_ALIGNMENT = 32, 1 << 16
_MOST_TENSORS = 1 << 16
_MOST_NAME_BYTES = 256  # ggml takes 64
_MOST_DIMENSIONS = 4
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The header's entry of one tensor; `begin` is in bytes from the start of the data."""

    kind: BlockType
    shape: tuple[int, ...]  # the outermost dimension first; a row lies along the last
    begin: int

    @property
    def size(self) -> int:
        """The bytes of the tensor."""
        return math.prod(self.shape[:-1]) * self.kind.row_bytes(self.shape[-1])


class GgufFile:
    """One file; the format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

    def __init__(self, path: Path) -> None:
        """Map the file and check its whole header; raises CheckpointError naming the file, and the key or tensor."""
        self.path = path
        self._map, self.state = map_model_file(path)
        reader = HeaderReader(path, self._map)
        self._check_version(reader)
        num_tensors = reader.count("the number of tensors", most=_MOST_TENSORS, least_bytes=8 + 4 + 8 + 4 + 8)
        num_keys = Metadata.count(reader)
        self.metadata = Metadata(path, self._map, reader, num_keys)
        self.tensors: dict[str, StoredTensor] = {}
        for _ in range(num_tensors):
            self._read_tensor(reader)
        self._lay_out(reader.position)

    def rows(self, name: str) -> NDArray[np.uint8]:
        """Return a tensor as it is stored, a read-only view; a vector has one row.  # [rows, bytes of a row]"""
        tensor = self.tensors[name]
        return self._data[tensor.begin : tensor.begin + tensor.size].reshape(math.prod(tensor.shape[:-1]), -1)

    def release(self, name: str) -> None:
        """Release the memory that reading a tensor has taken; views stay valid, and are read again when used."""
        tensor, header = self.tensors[name], len(self._map) - len(self._data)
        begin = (header + tensor.begin) // mmap.PAGESIZE * mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, begin, header + tensor.begin + tensor.size - begin)

    def _check_version(self, reader: HeaderReader) -> None:
        if (magic := self._map[:4]) != _MAGIC:
            raise CheckpointError(f"{self.path}: is not a GGUF file: it begins with {magic!r}, not with {_MAGIC!r}")
        reader.position = len(_MAGIC)
        if (version := reader.number("I", "the version")) not in _VERSIONS:
            hint = (
                " (its bytes are in the order of other machines)"
                if version in [known << 24 for known in _VERSIONS]
                else ""
            )
            raise reader.error("the version", f"is {version}{hint}; allowed are {', '.join(map(str, _VERSIONS))}")

    def _read_tensor(self, reader: HeaderReader) -> None:
        name = reader.text("a tensor's name", most=_MOST_NAME_BYTES)
        what = f"tensor {shown(name)}"
        if name in self.tensors:
            raise reader.error(what, "occurs twice")
        num_dimensions = reader.number("I", f"{what}: the number of dimensions")
        if not 1 <= num_dimensions <= _MOST_DIMENSIONS:
            problem = f"is {num_dimensions}; it must be from 1 to {_MOST_DIMENSIONS}"
            raise reader.error(f"{what}: the number of dimensions", problem)
        shape = tuple(int(reader.number("Q", f"{what}: a dimension")) for _ in range(int(num_dimensions)))[::-1]
        number, begin = int(reader.number("I", f"{what}: the type")), int(reader.number("Q", f"{what}: the offset"))
        if (kind := BLOCK_TYPES.get(number)) is None:
            allowed = ", ".join(known.name for known in BLOCK_TYPES.values())
            raise reader.error(what, f"type {type_name(number)} is not supported; allowed are {allowed}")
        if not all(shape) or math.prod(shape) > _LARGEST_COUNT:
            problem = f"has shape {[*shape]}; each dimension must be at least 1, their product at most {_LARGEST_COUNT}"
            raise reader.error(what, problem)
        if shape[-1] % kind.values:
            raise reader.error(what, f"has rows of {shape[-1]} values; {kind.name} needs a multiple of {kind.values}")
        self.tensors[name] = StoredTensor(kind, shape, begin)

    def _lay_out(self, header_end: int) -> None:
        """Raise CheckpointError unless the tensors follow the header one after the other, each aligned."""
        alignment = self.metadata.index("general.alignment", _MOST_ALIGNMENT + 1)
        alignment = _ALIGNMENT if alignment is None else alignment
        if alignment.bit_count() != 1:
            raise self.metadata.error("general.alignment", f"must be a power of 2, is {alignment}")
        data_begin = -(-header_end // alignment) * alignment
        self._data = np.frombuffer(self._map, dtype=np.uint8)[data_begin:]
        position = 0
        for name, tensor in sorted(self.tensors.items(), key=lambda item: item[1].begin):
            what = f"{self.path}: tensor {shown(name)}"
            if tensor.begin != position:
                fault = "overlaps the tensor before it" if tensor.begin < position else "leaves a hole before it"
                raise CheckpointError(f"{what}: begins at byte {tensor.begin} of the data and {fault}")
            if (end := tensor.begin + tensor.size) > len(self._data):
                held = f"but the file holds {len(self._data)}: truncated"
                raise CheckpointError(f"{what}: ends at byte {end} of the data, {held}")
            position = -(-end // alignment) * alignment
        if (rest := len(self._data) - position) > 0:
            raise CheckpointError(f"{self.path}: {rest} bytes after the last tensor belong to none")


def is_gguf(path: Path) -> bool:
    """Return whether a model's path is a GGUF file, not a folder."""
    return not path.is_dir() and (path.suffix == ".gguf" or path.is_file())
