"""TextCodec: converts the text that a target and a draft share to and from the tokens of one of them."""

import codecs
import re
from collections.abc import Mapping

from services.draft.vocabulary.retokenizer import Piece, Retokenizer

_MARK = re.compile("([^\x00-\xff])")
_CONTEXT = 32  # preceding bytes that affect how a tokenizer splits text: more than a word


class TextCodec:
    """In the text, a character below 256 is a byte, and each one above marks a special token that both have.

    So text never becomes a special token, and a special token never agrees with text.
    """

    def __init__(self, retokenizer: Retokenizer, marks: Mapping[int, str]) -> None:
        """`marks` are the marks of this vocabulary's special tokens, by their ids."""
        self._retokenizer = retokenizer
        self._marks = marks
        self._ids = {mark: token_id for token_id, mark in marks.items()}

    def text(self, token_id: int) -> str:
        """A token's text: empty for padding, its name for a special token that only one side has."""
        return self._marks.get(token_id) or self._retokenizer.tokenizer.token_bytes(token_id).decode("latin-1")

    def tokenize(self, text: str, before: str = "") -> list[Piece]:
        """The tokens of a text that comes after `before`."""
        pieces: list[Piece] = []
        context = _MARK.split(before[-_CONTEXT:])[-1]
        for part in _MARK.split(text):
            if (token_id := self._ids.get(part)) is not None:
                pieces.append(Piece(token_id, 1))
            elif part:
                pieces.extend(self._retokenizer.tokenize(part.encode("latin-1"), context.encode("latin-1")))
            context = ""
        return pieces

    def tokenize_whole(self, text: str, before: str = "") -> list[Piece]:
        """The tokens of a text that will continue, without an incomplete character at its end."""
        *_, end = _MARK.split(text)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(end.encode("latin-1"))
        half, _ = decoder.getstate()
        return self.tokenize(text[: len(text) - len(half)], before)
