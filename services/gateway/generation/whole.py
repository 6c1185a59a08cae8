"""An answer as one JSON body, of which what is long is encoded while the answer is written, not at once at its end."""

import json
import secrets
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest

_SEPARATORS = (",", ":")


class EncodedList:
    """A list whose entries are JSON as soon as they are in it; `encode_whole` takes it for what it is a list of."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def extend(self, entries: Iterable[object]) -> None:
        """Put entries behind the others; raises ValueError for numbers that JSON has not."""
        if told := _encode([*entries])[1:-1]:
            self._parts.append(told)

    def __bytes__(self) -> bytes:
        return b"[" + b",".join(self._parts) + b"]"


def encode_whole(told: object) -> bytes:
    """JSON of an object that may have encoded lists anywhere; raises ValueError for numbers that JSON has not."""
    mark, lists = secrets.token_hex(16), list[bytes]()  # no text can have the mark, which nobody knows

    def stand_in(value: EncodedList) -> str:
        lists.append(bytes(value))
        return mark

    rest = _encode(told, stand_in).split(f'"{mark}"'.encode())
    return b"".join(chain.from_iterable(zip_longest(rest, lists, fillvalue=b"")))


def _encode(value: object, default: Callable[[EncodedList], object] | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=_SEPARATORS, default=default).encode()
