"""Retokenizer: bytes in the tokens of a vocabulary, cut as its tokenizer cuts text."""

import re
from collections.abc import Sequence as Seq
from typing import NamedTuple

from services.engine.text.tokenizer import Tokenizer

_NOT_TEXT = re.compile("([\udc80-\udcff]+)")  # bytes that are no UTF-8, as `surrogateescape` has them


class Piece(NamedTuple):
    """A token, and how many bytes it stands for where it is."""

    token_id: int
    num_bytes: int


class Retokenizer:
    """Spells as the tokenizer does where it can, and else with as few tokens as the longest ones make."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        """`size` is that of the model, which may be padded beyond its tokenizer."""
        self.tokenizer = tokenizer
        self._size = size
        self.ids = _ids_by_bytes(tokenizer, size)
        self._longest = max((len(data) for data, is_special in self.ids if not is_special), default=0)

    def tokenize(self, data: bytes, before: bytes = b"") -> list[Piece]:
        """What a text goes on with behind `before`; where the tokenizer would not cut there, as a text of its own."""
        for context in dict.fromkeys((before, b"")):
            pieces = self._last(self._encode(context + data), data)
            if pieces is not None:
                return pieces
        return self.split(data)

    def split(self, data: bytes) -> list[Piece]:
        """The longest token at each place. A byte that there is no token for is left out: it counts to the piece behind
        it, or in the end to the last one.
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
        """The longest token that bytes begin with."""
        return self._longest_at(data, 0)[0]

    def _longest_at(self, data: bytes, start: int) -> tuple[int | None, int]:
        """The longest token at a place, and its end; None and that of the next byte where there is none."""
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
        """The last tokens, as far as they are just these bytes: what the tokenizer puts in front, normalises or does
        not know is found out here.
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
    """The last id of each token that stands for any bytes, by these and by whether it is a special one."""
    token_ids = range(min(size, tokenizer.vocab_size))
    keys = ((tokenizer.token_bytes(token_id), tokenizer.is_special(token_id)) for token_id in token_ids)
    return {key: token_id for token_id, key in enumerate(keys) if key[0]}
