"""JSON of an answer, of which what is long is encoded while the answer is written, not at once at its end."""

import json
import secrets
from collections.abc import Callable, Iterable


class EncodedList:
    """A list whose entries are JSON, in ASCII, as soon as they are in it; `encode` puts it where it stands."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        """What stands for it until all else is encoded; no text can have it, as nobody knows it."""
        self._parts: list[bytes] = []

    def extend(self, entries: Iterable[object]) -> None:
        """Put entries behind the others; raises ValueError for numbers that JSON has not."""
        if told := _encode([*entries], is_ascii=True)[1:-1]:
            self._parts.append(told)

    def __bytes__(self) -> bytes:
        return b"[" + b",".join(self._parts) + b"]"


def encode(told: object, *, is_ascii: bool) -> bytes:
    """JSON of an object that may have encoded lists anywhere; raises ValueError for numbers that JSON has not."""
    lists: list[EncodedList] = []

    def stand_in(value: EncodedList) -> str:
        lists.append(value)
        return value.mark

    rest = _encode(told, is_ascii=is_ascii, default=stand_in)
    parts: list[bytes] = []
    for each in lists:
        before, _, rest = rest.partition(f'"{each.mark}"'.encode())
        parts += (before, bytes(each))
    return b"".join((*parts, rest))


def _encode(value: object, *, is_ascii: bool, default: Callable[[EncodedList], object] | None = None) -> bytes:
    told = json.dumps(value, ensure_ascii=is_ascii, allow_nan=False, separators=(",", ":"), default=default)
    return told.encode()
