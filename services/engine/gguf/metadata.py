"""Metadata: the keys and values of a GGUF file, with clear errors for bad ones."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.gguf.header_reader import BOOL, SCALARS, STRING, GgufArray, HeaderReader, Scalar, described

_NUMPY = {"B": "u1", "b": "i1", "H": "u2", "h": "i2", "I": "u4", "i": "i4", "f": "f4", "Q": "u8", "q": "i8", "d": "f8"}
_MOST_KEYS = 1 << 12
_MOST_KEY_BYTES = (1 << 16) - 1  # the format's limit


class Metadata:
    """The metadata of one file; methods that return a checked value raise CheckpointError for another one."""

    def __init__(self, path: Path, data: mmap.mmap, reader: HeaderReader, count: int) -> None:
        """Read `count` pairs; raises CheckpointError for a key that occurs twice, and for malformed data."""
        self.path = path
        self._data = data
        self._values: dict[str, Scalar | GgufArray] = {}
        for _ in range(count):
            key = reader.text("a key", most=_MOST_KEY_BYTES)
            if key in self._values:
                raise self.error(key, "occurs twice")
            self._values[key] = reader.value(f"key {key!r}")

    @classmethod
    def count(cls, reader: HeaderReader) -> int:
        """Read the number of pairs."""
        return reader.count("the number of keys", most=_MOST_KEYS, least_bytes=8 + 4 + 1)

    def __contains__(self, key: str) -> bool:
        """Whether there is such a key."""
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self._values)

    def error(self, key: str, problem: str) -> CheckpointError:
        """Make the error that names this file and key."""
        return CheckpointError(f"{self.path}: key {key!r}: {problem}")

    def raw(self, key: str) -> object:
        """Return a value unchecked, None if it is absent; of a list of texts only a description of its length."""
        value = self._values.get(key)
        if isinstance(value, GgufArray):
            return f"a list of {value.count} texts" if value.kind == STRING else self.numbers(key).tolist()
        return value

    def text(self, key: str) -> str | None:
        """Return a text, None if it is absent."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, f"must be a text, is {described(value)}")
        return value

    def required_text(self, key: str) -> str:
        """Return a text that must be present."""
        if (value := self.text(key)) is None:
            raise self.error(key, "is missing")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, is {described(value)}")
        return value

    def index(self, key: str, size: int) -> int | None:
        """Return a whole number from 0 to `size` - 1, None if it is absent."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < size:
            raise self.error(key, f"must be a whole number from 0 to {size - 1}, is {described(value)}")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts that must be present; bytes that are not UTF-8 become U+FFFD, as in llama.cpp."""
        array = self._array(key, "texts")
        if array.kind != STRING:
            raise self.error(key, "must be a list of texts, is one of numbers")
        data, position = self._data, array.begin
        texts = []
        for _ in range(array.count):
            begin = position + 8
            position = begin + int.from_bytes(data[position:begin], "little")
            texts.append(str(data[begin:position], "utf-8", "replace"))
        return texts

    def numbers(self, key: str) -> NDArray[Any]:
        """Return a list of numbers that must be present, as a copy.  # [count]"""
        array = self._array(key, "numbers")
        if array.kind == STRING:
            raise self.error(key, "must be a list of numbers, is one of texts")
        dtype = np.dtype("?" if array.kind == BOOL else f"<{_NUMPY[SCALARS[array.kind]]}")
        return np.frombuffer(self._data, dtype=dtype, count=array.count, offset=array.begin).copy()

    def _array(self, key: str, of: str) -> GgufArray:
        value = self._values.get(key)
        if not isinstance(value, GgufArray):
            raise self.error(key, "is missing" if value is None else f"must be a list of {of}, is {described(value)}")
        return value
