"""StopStrings: finds stop strings in a stream of bytes, and knows how much of its end may become one."""

from collections.abc import Iterable
from typing import NamedTuple

from services.target.output.string_search import StringSearch


class StopMatch(NamedTuple):
    """A stop string that is complete."""

    stop: str
    distance: int  # bytes from its beginning to the end of what was fed


class StopStrings:
    """Searches for several stop strings at once, byte by byte, in time linear in the bytes.

    Feed each token's bytes in one call. Of the stops that a call completes, the one that starts earliest in the text
    wins, and of several that start there, the longest; their order in the request does not matter. A caller who passes
    over one may feed on. A shallow copy goes on by itself.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises ValueError for an empty stop string."""
        self._search = StringSearch(stops)
        self._node = 0

    @property
    def num_held(self) -> int:
        """Bytes at the end of what was fed that may yet become a stop: no more than are needed."""
        return self._search.num_matched(self._node)

    def feed(self, data: bytes) -> StopMatch | None:
        """Take one token's bytes; return the stop that is complete with them."""
        matches: list[tuple[int, int, str]] = []
        for num_left, byte in zip(reversed(range(len(data))), data, strict=True):
            self._node = self._search.step(self._node, byte)
            if (stop := self._search.found(self._node)) is not None:
                size = len(stop.encode())
                matches.append((num_left + size, size, stop))
        if not matches:
            return None
        distance, _, stop = max(matches)
        return StopMatch(stop, distance)
