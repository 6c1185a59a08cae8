"""TokenSearch: finds the tokens that contain a string."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from services.engine.text.tokenizer import Tokenizer


class TokenSearch:
    """Searches all tokens of a tokenizer at once, in about a millisecond for each string."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def ids_with(self, strings: Iterable[str]) -> tuple[int, ...]:
        """Return the ids of the tokens that contain one of these non-empty strings, in ascending order."""
        found = [self._ids_with(string.encode()) for string in strings]
        return tuple(np.unique(np.concatenate([np.zeros(0, np.int64), *found])).tolist())

    def _ids_with(self, string: bytes) -> NDArray[np.int64]:
        places = np.arange(max(0, len(self._bytes) - len(string) + 1))
        for offset, byte in enumerate(string):
            places = places[self._bytes[places + offset] == byte]
        ids = np.searchsorted(self._ends, places, side="right")
        return ids[places + len(string) <= self._ends[ids]]

    @cached_property
    def _tokens(self) -> list[bytes]:
        return [self._tokenizer.token_bytes(token_id) for token_id in range(self._tokenizer.vocab_size)]

    @cached_property
    def _bytes(self) -> NDArray[np.uint8]:
        """The bytes of all tokens, one after the other."""
        return np.frombuffer(b"".join(self._tokens), np.uint8)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """The end of each token in `_bytes`."""
        return np.cumsum([len(token) for token in self._tokens])
