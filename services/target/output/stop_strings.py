"""StopStrings: finds stop strings in a stream of bytes, and knows how much of its end may become one."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


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
        self._search = _StringSearch(stops)
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


class _StringSearch:
    """One step per byte, however many strings there are; immutable: what a search has seen is the number of a node.

    Node 0 stands for having seen nothing, every other one for the beginning of a string, the longest one that the bytes
    so far end with. Source: Aho and Corasick, Efficient string matching (1975).
    """

    def __init__(self, strings: Iterable[str]) -> None:
        """Raises ValueError for an empty string."""
        self._next: list[dict[int, int]] = [{}]
        self._shorter = [0]  # the node of the next shorter beginning that the bytes so far end with
        self._depth = [0]
        self._found: list[str | None] = [None]
        for string in strings:
            self._add(string)
        self._link()

    def step(self, node: int, byte: int) -> int:
        """The node behind one more byte."""
        while node and byte not in self._next[node]:
            node = self._shorter[node]
        return self._next[node].get(byte, 0)

    def num_matched(self, node: int) -> int:
        """Bytes at the end of those so far that a string begins with and goes on from, as many as there are."""
        while not self._next[node] and node:
            node = self._shorter[node]
        return self._depth[node]

    def found(self, node: int) -> str | None:
        """The longest string that the bytes so far end with."""
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
        """Fill in the shorter nodes, and what is found at a node by way of them, from the shallow to the deep."""
        waiting = deque(self._next[0].values())
        while waiting:
            node = waiting.popleft()
            for byte, child in self._next[node].items():
                self._shorter[child] = self.step(self._shorter[node], byte)
                waiting.append(child)
            if self._found[node] is None:
                self._found[node] = self._found[self._shorter[node]]
