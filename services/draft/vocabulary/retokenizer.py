"""Retokenizer: encodes bytes in the tokens of a vocabulary, as its tokenizer encodes text."""

import re
from collections.abc import Sequence as Seq
from typing import NamedTuple

from services.engine.text.tokenizer import Tokenizer

_NOT_TEXT = re.compile("([\udc80-\udcff]+)")  # bytes that are no UTF-8, as `surrogateescape` has them


class Piece(NamedTuple):
    """A token, and how many bytes of the text it stands for."""

    token_id: int
    num_bytes: int


class Retokenizer:
    """Encodes as the tokenizer does where that is possible, and else greedily with the longest tokens."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        """`size` is the vocabulary size of the model, which may be padded beyond its tokenizer's."""
        self.tokenizer = tokenizer
        self._size = size
        self.ids = _ids_by_bytes(tokenizer, size)
        self._longest = max((len(data) for data, is_special in self.ids if not is_special), default=0)

    def tokenize(self, data: bytes, before: bytes = b"") -> list[Piece]:
        """The tokens of `data` after `before`; if the tokenizer does not cut between the two, those of `data` alone."""
        for context in dict.fromkeys((before, b"")):
            pieces = self._last(self._encode(context + data), data)
            if pieces is not None:
                return pieces
        return self.split(data)

    def split(self, data: bytes) -> list[Piece]:
        """The longest token at each place. A byte without a token is left out, and counts to the piece after it, or at
        the end to the last piece.
        """
        pieces: list[Piece] = []
        start = done = 0
        while start < len(data):
            token_id, end = self._longest_at(data, start)
            if token_id is not None:
                pieces.append(Piece(token_id, end - done))
                done = end
            start = end
        if pieces:
            pieces[-1] = Piece(pieces[-1].token_id, pieces[-1].num_bytes + len(data) - done)
        return pieces

    def first(self, data: bytes) -> int | None:
        """The longest token that the bytes begin with; None if there is none."""
        return self._longest_at(data, 0)[0]

    def _longest_at(self, data: bytes, start: int) -> tuple[int | None, int]:
        """The longest token at a place, and its end; None and the end of the next byte if there is none."""
        for end in range(min(len(data), start + self._longest), start, -1):
            if (token_id := self.ids.get((data[start:end], False))) is not None:
                return token_id, end
        return None, start + 1

    def _encode(self, data: bytes) -> list[int]:
        token_ids: list[int] = []
        for index, part in enumerate(_NOT_TEXT.split(data.decode(errors="surrogateescape"))):
            if index % 2:
                token_ids.extend(piece.token_id for piece in self.split(part.encode(errors="surrogateescape")))
            else:
                token_ids.extend(self.tokenizer.encode(part, add_special_tokens=False, parse_special=False))
        return token_ids

    def _last(self, token_ids: Seq[int], data: bytes) -> list[Piece] | None:
        """The last tokens, if they are exactly these bytes; None where the tokenizer changed the text: put something in
        front of it, normalised it or did not know it.
        """
        pieces: list[Piece] = []
        end = len(data)
        for token_id in reversed(token_ids):
            if end == 0:
                break
            piece = self.tokenizer.token_bytes(token_id)
            if token_id >= self._size or data[max(0, end - len(piece)) : end] != piece:
                return None
            pieces.append(Piece(token_id, len(piece)))
            end -= len(piece)
        return pieces[::-1] if end == 0 else None


def _ids_by_bytes(tokenizer: Tokenizer, size: int) -> dict[tuple[bytes, bool], int]:
    """The id of each token that has bytes, by the bytes and whether it is special; of several ids, the last one."""
    token_ids = range(min(size, tokenizer.vocab_size))
    keys = ((tokenizer.token_bytes(token_id), tokenizer.is_special(token_id)) for token_id in token_ids)
    return {key: token_id for token_id, key in enumerate(keys) if key[0]}
