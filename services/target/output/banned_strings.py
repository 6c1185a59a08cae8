"""BannedStrings: finds what must not be in an answer's text, and knows how many of its tokens may become part of it."""

import codecs
from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

from services.target.output.stop_strings import StopStrings


class BannedMatch(NamedTuple):
    """A banned string that is complete."""

    string: str  # as it was banned
    num_tokens: int  # from the one in which it begins to the last one fed


class BannedStrings:
    """Searches the text for banned strings, whatever the case of their letters, token by token.

    A banned string is found where its case folding is found in that of the text: Unicode's full one (`str.casefold`),
    character by character, and nothing else is normalised. It is looked for in the text with special tokens spelled out
    and in that without them, so that neither ever has it. Bytes that are no character are U+FFFD.

    Of the strings that one token completes, the one that begins earliest counts, and of several that begin there the
    longest; of those that differ in case alone the first.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        """Raises ValueError for an empty string."""
        self._string_of: dict[str, str] = {}
        for string in strings:
            self._string_of.setdefault(string.casefold(), string)
        self._spelled = _FoldedText(self._string_of)
        self._plain: _FoldedText | None = None  # of its own from the first special token on

    @property
    def num_held(self) -> int:
        """Tokens at the end of those fed that may be the beginning of a banned string: no more than are needed."""
        return max(self._spelled.num_held, self._plain.num_held if self._plain else 0)

    def fork(self) -> "BannedStrings":
        """A copy that goes on by itself."""
        other = copy(self)
        other._spelled = self._spelled.fork()
        other._plain = self._plain and self._plain.fork()
        return other

    def feed(self, data: bytes, *, is_special: bool) -> BannedMatch | None:
        """Take one token's bytes; return the banned string that is complete, after which the stream is over."""
        if is_special and self._plain is None:
            self._plain = self._spelled.fork()
        matches = [self._spelled.feed(data)]
        if self._plain is not None:
            matches.append(self._plain.feed(b"" if is_special else data))
        found = [match for match in matches if match is not None]
        if not found:
            return None
        first = max(found, key=lambda match: match.num_tokens)
        return BannedMatch(self._string_of[first.string], first.num_tokens)


class _FoldedText:
    """The case folding of a text that grows token by token, with the token in which each of its last bytes begins."""

    def __init__(self, folded: Iterable[str]) -> None:
        strings = [*folded]
        self._stops = StopStrings(strings)
        self._longest = max((len(string.encode()) for string in strings), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._num_tokens = 0
        self._owners: list[int] = []  # of the last folded bytes, by the first byte of the character that they fold
        self._begun = 0  # the owner of a character that is not whole yet

    @property
    def num_held(self) -> int:
        held = self._stops.num_held
        first = self._owners[-held] if held else self._num_tokens
        return self._num_tokens - (min(first, self._begun) if self._is_amid_character else first)

    @property
    def _is_amid_character(self) -> bool:
        return bool(self._decoder.getstate()[0])

    def fork(self) -> "_FoldedText":
        other = copy(self)
        other._stops = copy(self._stops)
        other._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        other._decoder.setstate(self._decoder.getstate())
        other._owners = [*self._owners]
        return other

    def feed(self, data: bytes) -> BannedMatch | None:
        token, self._num_tokens = self._num_tokens, self._num_tokens + 1
        owner = self._begun if self._is_amid_character else token  # of the first character that is whole now
        text = self._decoder.decode(data)
        first, rest = text[:1].casefold().encode(), text[1:].casefold().encode()
        self._begun = token if text else owner
        self._owners += [owner] * len(first) + [token] * len(rest)
        match = self._stops.feed(first + rest)
        found = match and BannedMatch(match.stop, self._num_tokens - self._owners[-match.distance])
        del self._owners[: -self._longest]
        return found
