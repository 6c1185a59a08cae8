"""Detokenizer: one sequence's token ids to text, never splitting a character."""

import codecs

from services.engine.text.tokenizer import Tokenizer


class Detokenizer:
    """Decodes incrementally, on bytes: an incomplete character waits for the token that completes it.

    The text so far is a pure function of the ids so far. Bytes that can be no character become U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer, show_special: bool = False) -> None:
        """`show_special` writes control tokens out; otherwise they are hidden."""
        self._tokenizer = tokenizer
        self._show_special = show_special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def fork(self) -> "Detokenizer":
        """A copy that goes on by itself."""
        other = Detokenizer(self._tokenizer, self._show_special)
        other._decoder.setstate(self._decoder.getstate())
        return other

    def push(self, token_id: int) -> str:
        """Take one token and return the text that is complete with it."""
        return self.decode(self._tokenizer.token_bytes(token_id) if self.is_shown(token_id) else b"")

    def finish(self) -> str:
        """Return what is left at the end: U+FFFD for a character that was never completed."""
        return self.decode(b"", is_end=True)

    def is_shown(self, token_id: int) -> bool:
        """Whether a token's bytes are part of the text."""
        return self._show_special or not self._tokenizer.is_special(token_id)

    def decode(self, data: bytes, *, is_end: bool = False) -> str:
        """Take bytes that are to be text, and return the characters that are complete with them."""
        return self._decoder.decode(data, is_end)
