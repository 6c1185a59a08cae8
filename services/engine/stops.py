"""StopStrings: finds stop strings in a stream of bytes, and knows how much of its end may become one."""

from collections.abc import Sequence
from typing import NamedTuple


class StopMatch(NamedTuple):
    """A stop string that is complete."""

    stop: str
    distance: int  # bytes from its beginning to the end of what was fed


class StopStrings:
    """Searches for several stop strings at once, byte by byte, in time linear in the bytes.

    Feed each token's bytes in one call: the first call in which any stop is complete ends the stream. Of the stops
    complete by then, the one that starts earliest in the text wins, and of several that start there, the longest;
    their order in the request does not matter.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Raises ValueError for an empty stop string."""
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self._searches = [_Search(stop) for stop in dict.fromkeys(stops)]

    @property
    def num_held(self) -> int:
        """Bytes at the end of what was fed that may yet become a stop: no more than are needed."""
        return max((search.num_matched for search in self._searches), default=0)

    def feed(self, data: bytes) -> StopMatch | None:
        """Take one token's bytes; return the stop that is complete, after which the stream is over."""
        matches = [
            (len(data) - end + len(search.pattern), len(search.pattern), search.stop)
            for search in self._searches
            if (end := search.feed(data)) is not None
        ]
        if not matches:
            return None
        distance, _, stop = max(matches)
        return StopMatch(stop, distance)


class _Search:
    """Streaming search for one string (Knuth, Morris and Pratt 1977)."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.pattern = stop.encode()
        self.num_matched = 0  # length of the longest prefix that the bytes so far end with
        self._borders = _borders(self.pattern)

    def feed(self, data: bytes) -> int | None:
        """Return how many bytes of `data` it takes until the string is complete, None while it is not."""
        for count, byte in enumerate(data, start=1):
            while self.num_matched and byte != self.pattern[self.num_matched]:
                self.num_matched = self._borders[self.num_matched - 1]
            self.num_matched += byte == self.pattern[self.num_matched]
            if self.num_matched == len(self.pattern):
                return count
        return None


def _borders(pattern: bytes) -> list[int]:
    """Return, for every prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0]
    for byte in pattern[1:]:
        length = borders[-1]
        while length and byte != pattern[length]:
            length = borders[length - 1]
        borders.append(length + (byte == pattern[length]))
    return borders
