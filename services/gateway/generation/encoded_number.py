"""EncodedNumber: a number of a call's arguments that is beyond float64, which stays as the model has written it."""

import json
import math
import secrets


class EncodedNumber:
    """A number in JSON; `encode` inserts it in an object's JSON."""

    def __init__(self, text: str) -> None:
        self.mark = secrets.token_hex(16)
        """A random placeholder for it while the rest is encoded; no text can contain it."""
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()


def read_arguments(text: str) -> object:
    """Parse the JSON of a call's arguments, which `encode` encodes again with all its numbers."""
    return json.loads(text, parse_float=_read_number)


def _read_number(text: str) -> float | EncodedNumber:
    return EncodedNumber(text) if math.isinf(number := float(text)) else number
