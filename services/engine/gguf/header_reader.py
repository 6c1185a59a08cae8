"""HeaderReader: reads the header of a GGUF file value by value, never beyond its end."""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import shown
from services.engine.files.model_file import MIB

# The code of `struct` for each type, by its number in a file.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
FLOAT32, BOOL, STRING, ARRAY = 6, 7, 8, 9
_MOST_HEADER_BYTES = 64 * MIB  # six times the largest vocabulary with its merges
_MOST_ELEMENTS = 1 << 22  # of one list; larger than any existing vocabulary

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class GgufArray:
    """A list in the metadata; its elements are read from the file when they are requested."""

    kind: int  # the type of its elements
    count: int
    begin: int  # in bytes from the start of the file


class HeaderReader:
    """Reads from a position on; all methods raise CheckpointError naming the file and what they could not read."""

    def __init__(self, path: Path, data: mmap.mmap, position: int = 0) -> None:
        self._path = path
        self._data = data
        self._end = min(len(data), _MOST_HEADER_BYTES)
        self.position = position

    def number(self, code: str, what: str) -> int | float:
        """Read one number, by its code of `struct`; `what` names it in errors."""
        size = struct.calcsize(code)
        (value,) = struct.unpack_from(f"<{code}", self._data, self._skip(size, what))
        return value  # type: ignore[no-any-return]

    def count(self, what: str, *, most: int, least_bytes: int) -> int:
        """Read a count of items that follow, each of at least `least_bytes`."""
        count = int(self.number("Q", what))
        if count > most:
            raise self.error(what, f"is {count}; it must be from 0 to {most}")
        if count * least_bytes > self._end - self.position:
            raise self.error(what, f"is {count}, for which the file has too few bytes: it is truncated, or damaged")
        return count

    def text(self, what: str, *, most: int = _MOST_HEADER_BYTES) -> str:
        """Read a string of at most `most` bytes, which must be UTF-8."""
        size = self.count(f"{what}: the length", most=most, least_bytes=1)
        begin = self._skip(size, what)
        try:
            return self._data[begin : begin + size].decode()
        except UnicodeDecodeError as error:
            raise self.error(what, f"is not UTF-8: {error}") from error

    def value(self, what: str) -> Scalar | GgufArray:
        """Read a type and the value after it."""
        kind = int(self.number("I", f"{what}: the type"))
        if kind == STRING:
            return self.text(what)
        if kind == ARRAY:
            return self._array(what)
        return self.scalar(kind, what)

    def scalar(self, kind: int, what: str) -> int | float | bool:
        """Read a number or a boolean."""
        if kind not in SCALARS:
            raise self.error(f"{what}: the type", f"is {kind}; allowed are 0 to 12")
        value = self.number(SCALARS[kind], what)
        if kind == FLOAT32:  # the shortest decimal with this float32 value, presumably what the author wrote
            return float(str(np.float32(value)))
        if kind != BOOL:
            return value
        if value not in (0, 1):
            raise self.error(what, f"must be true or false, 1 or 0, is {value}")
        return bool(value)

    def error(self, what: str, problem: str) -> CheckpointError:
        """Make the error that names this file and what is wrong in it."""
        return CheckpointError(f"{self._path}: {what}: {problem}")

    def _array(self, what: str) -> GgufArray:
        kind = int(self.number("I", f"{what}: the elements' type"))
        if kind != STRING and kind not in SCALARS:
            raise self.error(f"{what}: the elements' type", f"is {kind}; allowed are 0 to 8 and 10 to 12")
        size = 8 if kind == STRING else struct.calcsize(SCALARS[kind])
        count = self.count(f"{what}: the number of elements", most=_MOST_ELEMENTS, least_bytes=size)
        array = GgufArray(kind, count, self.position)
        if kind != STRING:
            self._skip(count * size, what)
        else:
            self._skip_strings(count, what)
        return array

    def _skip_strings(self, count: int, what: str) -> None:
        data, position, end, read = self._data, self.position, self._end, struct.Struct("<Q").unpack_from
        for index in range(count):
            if position + 8 > end:
                raise self.error(what, f"element {index} lies beyond the end of the header: truncated, or damaged")
            position += 8 + read(data, position)[0]
        self.position = position
        self._skip(0, what)

    def _skip(self, size: int, what: str) -> int:
        """Skip bytes, and return where they begin."""
        begin = self.position
        if begin + size > self._end:
            limit = f"; a header may have at most {_MOST_HEADER_BYTES}" if self._end == _MOST_HEADER_BYTES else ""
            problem = f"lies beyond byte {self._end}, the end of the {'header' if limit else 'file'}{limit}"
            raise self.error(what, f"{problem}: truncated, or damaged")
        self.position = begin + size
        return begin


def described(value: Scalar | GgufArray | None) -> str:
    """Return a value as an error quotes it."""
    return f"a list of {value.count}" if isinstance(value, GgufArray) else shown(value)
