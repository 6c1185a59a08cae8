"""EncodedNumber: a number of a call's arguments that is beyond float64, which stays as the model has written it."""

import secrets


class EncodedNumber:
    """A number in JSON; `encode` inserts it in an object's JSON."""

    def __init__(self, text: str) -> None:
        self.mark = secrets.token_hex(16)
        """A random placeholder for it while the rest is encoded; no text can contain it."""
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()
