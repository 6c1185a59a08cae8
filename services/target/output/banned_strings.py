"""BannedStrings: finds banned strings in an answer's text, and knows how many last tokens may be part of one."""

import codecs
from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

from services.target.output.stop_strings import StopStrings


class BannedMatch(NamedTuple):
    """A banned string that is complete."""

    string: str  # as it was banned
    num_tokens: int  # from the token in which it begins to the last one fed


class BannedStrings:
    """Searches the text for banned strings, token by token, without regard to case.

    Strings and text are compared after Unicode's full case folding (`str.casefold`), character by character; nothing
    else is normalised. The text is searched both with special tokens spelled out and without them, so that neither
    ever has a banned string. Bytes that are no character count as U+FFFD.

    If one token completes several strings, the one that begins earliest counts; among those that begin there, the
    longest; and among those that differ in case only, the first in the list.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        """Raises ValueError for an empty string."""
        self._string_of: dict[str, str] = {}
        for string in strings:
            self._string_of.setdefault(string.casefold(), string)
        self._spelled = _FoldedText(self._string_of)
        self._plain: _FoldedText | None = None  # the text without special tokens, from the first of these on

    @property
    def num_held(self) -> int:
        """The smallest number of last tokens that may hold the beginning of a banned string."""
        return max(self._spelled.num_held, self._plain.num_held if self._plain else 0)

    def fork(self) -> "BannedStrings":
        """An independent copy of the search's state."""
        other = copy(self)
        other._spelled = self._spelled.fork()
        other._plain = self._plain and self._plain.fork()
        return other

    def feed(self, data: bytes, *, is_special: bool) -> BannedMatch | None:
        """Take one token's bytes; returns the banned string that they complete, after which this cannot be used."""
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
        self._owners: list[int] = []  # for each of the last folded bytes, the token in which its character begins
        self._begun = 0  # the token in which an incomplete character begins

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
        owner = self._begun if self._is_amid_character else token  # of the first character that is complete now
        text = self._decoder.decode(data)
        first, rest = text[:1].casefold().encode(), text[1:].casefold().encode()
        self._begun = token if text else owner
        self._owners += [owner] * len(first) + [token] * len(rest)
        match = self._stops.feed(first + rest)
        found = match and BannedMatch(match.stop, self._num_tokens - self._owners[-match.distance])
        del self._owners[: -self._longest]
        return found
