"""PackedFile: packed weights in a file, which are read directly into the decoder's memory.

Layout: 8 bytes of magic, the header's length (u64) and CRC-32 (u32), the header in JSON, then the weights' bytes in the
order of the header. Numbers are little-endian.
"""

import json
import os
import struct
import zlib
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.engine.files.regular_file import open_regular

Weights = Mapping[str, NDArray[np.uint8]]

_MAGIC = b"OUTRIDER"
_VERSION = 1
_PREFIX = struct.Struct("<8sQI")
_MOST_HEADER_BYTES = 16 << 20  # enough for the checksums of four terabytes
_SLICE = 4 << 20  # bytes read at once: small enough to be in the CPU's cache for their checksum


class PackedFileError(ValueError):
    """A file is damaged, or holds other weights than those requested; the message names it."""


class PackedFile:
    """The packed weights of one key, which is any JSON object; `threads` threads read them."""

    def __init__(self, path: Path, key: Mapping[str, str], *, threads: int) -> None:
        self.path = path
        self._key = dict(key)
        self._threads = threads

    def write(self, file: BinaryIO, weights: Weights) -> Generator[None]:
        """Write to an open, empty file, step by step on one thread; raises OSError."""
        checksums = []
        for item in _slices(weights, 0):
            checksums.append(zlib.crc32(item.memory))
            yield
        header = json.dumps(self._layout(weights) | {"crc32": checksums}).encode()
        file.write(_PREFIX.pack(_MAGIC, len(header), zlib.crc32(header)) + header)
        for item in _slices(weights, 0):
            file.write(item.memory)
            yield

    def read(self, weights: Weights) -> None:
        """Fill the weights; after an error their contents are undefined.

        Raises FileNotFoundError, any other OSError, and PackedFileError.
        """
        with open_regular(self.path, buffering=0) as file:
            header, begin = self._read_header(file)
            checksums = self._match(header, weights)
            self._check_size(file, begin + sum(values.nbytes for values in weights.values()))
            slices = zip(_slices(weights, begin), checksums, strict=True)
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(lambda item: self._read_slice(file.fileno(), *item), slices))

    def _layout(self, weights: Weights) -> dict[str, Any]:
        sizes = {name: values.nbytes for name, values in weights.items()}
        return {"version": _VERSION, "key": self._key, "slice": _SLICE, "bytes": sizes}

    def _read_header(self, file: BinaryIO) -> tuple[dict[str, Any], int]:
        """Return the header, and the offset of the weights; raises PackedFileError for a damaged header."""
        prefix = file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(_MAGIC):
            raise PackedFileError(f"{self.path}: holds no packed weights")
        _, size, checksum = _PREFIX.unpack(prefix)
        text = file.read(min(size, _MOST_HEADER_BYTES))
        if len(text) < size or zlib.crc32(text) != checksum:
            raise PackedFileError(f"{self.path}: the header is damaged")
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PackedFileError(f"{self.path}: the header is no JSON: {error}") from error
        if not isinstance(header, dict):
            raise PackedFileError(f"{self.path}: the header is no JSON object")
        return header, _PREFIX.size + size

    def _match(self, header: dict[str, Any], weights: Weights) -> list[int]:
        """Return the checksums of all slices; raises PackedFileError if the file is for other weights."""
        layout = self._layout(weights)
        if (key := header.get("key")) != self._key:
            raise PackedFileError(f"{self.path}: was made for {key}; it must be for {self._key}")
        if {field: header.get(field) for field in layout} != layout:
            raise PackedFileError(f"{self.path}: has another layout than these weights")
        checksums, count = header.get("crc32"), sum(1 for _ in _slices(weights, 0))
        if not isinstance(checksums, list) or len(checksums) != count:
            raise PackedFileError(f"{self.path}: the header has not {count} checksums")
        return checksums

    def _check_size(self, file: BinaryIO, expected: int) -> None:
        if (size := os.fstat(file.fileno()).st_size) != expected:
            raise PackedFileError(f"{self.path}: has {size} bytes; it must have {expected}")

    def _read_slice(self, file: int, item: "_Slice", checksum: int) -> None:
        done = 0
        while done < len(item.memory):
            count = os.preadv(file, [item.memory[done:]], item.position + done)
            if count == 0:
                raise PackedFileError(f"{self.path}: weight {item.weight!r} is truncated")
            done += count
        if zlib.crc32(item.memory) != checksum:
            raise PackedFileError(f"{self.path}: weight {item.weight!r} is damaged, its checksum differs")


class _Slice(NamedTuple):
    """A part of a weight, and its offset in the file."""

    weight: str
    position: int
    memory: memoryview


def _slices(weights: Weights, position: int) -> Iterator[_Slice]:
    """Yield the slices of weights that begin in the file at a position."""
    for name, values in weights.items():
        for first in range(0, values.nbytes, _SLICE):
            yield _Slice(name, position + first, values.data[first : first + _SLICE])
        position += values.nbytes
