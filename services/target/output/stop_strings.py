"""StopStrings: finds stop strings in a stream of bytes, and knows how many of its last bytes may begin one."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class StopMatch(NamedTuple):
    """A stop string that is complete."""

    stop: str
    distance: int  # bytes from its beginning to the end of what was fed


class StopStrings:
    """Searches for several stop strings at once, byte by byte, in time linear in the bytes.

    Feed each token's bytes in one call. If a call completes several stops, the one that starts earliest in the text
    wins, and among those that start there, the longest; their order in the request does not matter. A caller that
    ignores a match may continue to feed. A shallow copy is independent.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises ValueError for an empty stop string."""
        self._search = _StringSearch(stops)
        self._node = 0

    @property
    def num_held(self) -> int:
        """The smallest number of last bytes that may hold the beginning of a stop string."""
        return self._search.num_matched(self._node)

    def feed(self, data: bytes) -> StopMatch | None:
        """Take one token's bytes; return the stop string that they complete, if any."""
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


class _StringSearch:
    """One step per byte, however many strings there are. It is immutable: a search's state is the number of a node.

    Each node stands for a prefix of a string, node 0 for the empty one; a search is at the node of the longest prefix
    that the bytes so far end with. Source: Aho and Corasick, Efficient string matching (1975).
    """

    def __init__(self, strings: Iterable[str]) -> None:
        """Raises ValueError for an empty string."""
        self._next: list[dict[int, int]] = [{}]
        self._shorter = [0]  # for each node, that of the next shorter prefix that the bytes so far end with
        self._depth = [0]
        self._found: list[str | None] = [None]
        for string in strings:
            self._add(string)
        self._link()

    def step(self, node: int, byte: int) -> int:
        """The node after one more byte."""
        while node and byte not in self._next[node]:
            node = self._shorter[node]
        return self._next[node].get(byte, 0)

    def num_matched(self, node: int) -> int:
        """The length of the longest incomplete prefix of a string that the bytes so far end with."""
        while not self._next[node] and node:
            node = self._shorter[node]
        return self._depth[node]

    def found(self, node: int) -> str | None:
        """The longest string that the bytes so far end with, if any."""
        return self._found[node]

    def _add(self, string: str) -> None:
        if not string:
            raise ValueError("a string to look for must not be empty")
        node = 0
        for byte in string.encode():
            if byte not in self._next[node]:
                self._next[node][byte] = len(self._next)
                self._next.append({})
                self._shorter.append(0)
                self._depth.append(self._depth[node] + 1)
                self._found.append(None)
            node = self._next[node][byte]
        self._found[node] = string

    def _link(self) -> None:
        """Fill in the shorter nodes and the strings found through them, breadth first."""
        waiting = deque(self._next[0].values())
        while waiting:
            node = waiting.popleft()
            for byte, child in self._next[node].items():
                self._shorter[child] = self.step(self._shorter[node], byte)
                waiting.append(child)
            if self._found[node] is None:
                self._found[node] = self._found[self._shorter[node]]
