"""EncodedList: a long list in an answer's JSON, which is encoded piece by piece as it grows instead of at the end."""

import json
import secrets
from collections.abc import Callable, Iterable

from services.gateway.generation.encoded_number import EncodedNumber


class EncodedList:
    """A list whose entries are encoded as ASCII JSON when they are added; `encode` inserts it in an object's JSON."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        """A random placeholder for it while the rest is encoded; no text can contain it."""
        self._parts: list[bytes] = []

    def extend(self, entries: Iterable[object]) -> None:
        """Append entries; raises ValueError for numbers that JSON does not have."""
        if encoded := _encode([*entries], is_ascii=True)[1:-1]:
            self._parts.append(encoded)

    def __bytes__(self) -> bytes:
        return b"[" + b",".join(self._parts) + b"]"


def encode(value: object, *, is_ascii: bool) -> bytes:
    """Encode an object with encoded lists and numbers anywhere in it; raises ValueError for numbers that JSON does not
    have.
    """
    encoded: list[EncodedList | EncodedNumber] = []

    def stand_in(found: EncodedList | EncodedNumber) -> str:
        encoded.append(found)
        return found.mark

    rest = _encode(value, is_ascii=is_ascii, default=stand_in)
    parts: list[bytes] = []
    for each in encoded:
        before, _, rest = rest.partition(f'"{each.mark}"'.encode())
        parts += (before, bytes(each))
    return b"".join((*parts, rest))


def _encode(
    value: object, *, is_ascii: bool, default: Callable[[EncodedList | EncodedNumber], object] | None = None
) -> bytes:
    return json.dumps(value, ensure_ascii=is_ascii, allow_nan=False, separators=(",", ":"), default=default).encode()
