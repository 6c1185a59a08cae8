"""TextCodec: the text that a target and a draft share, in the tokens of one of them."""

import codecs
import re
from collections.abc import Mapping

from services.draft.vocabulary.retokenizer import Piece, Retokenizer

_MARK = re.compile("([^\x00-\xff])")
_CONTEXT = 32  # bytes in front that a tokenizer looks at: more than a word


class TextCodec:
    """In the text, a character below 256 is a byte, and each beyond is the mark of a special token that both have.

    So text never turns into a special token, nor does such a token agree with text.
    """

    def __init__(self, retokenizer: Retokenizer, marks: Mapping[int, str]) -> None:
        """`marks` has those of this vocabulary's special tokens."""
        self._retokenizer = retokenizer
        self._marks = marks
        self._ids = {mark: token_id for token_id, mark in marks.items()}

    def text(self, token_id: int) -> str:
        """What a token is in the text: nothing for padding, its name for a special token that only one side has."""
        return self._marks.get(token_id) or self._retokenizer.tokenizer.token_bytes(token_id).decode("latin-1")

    def tokenize(self, text: str, before: str = "") -> list[Piece]:
        """The tokens of a text that stands behind `before`."""
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
        """The tokens of a text that goes on, but for half a character at its end, which no text ends with."""
        *_, end = _MARK.split(text)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(end.encode("latin-1"))
        half, _ = decoder.getstate()
        return self.tokenize(text[: len(text) - len(half)], before)
