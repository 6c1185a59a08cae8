"""MemoryPages: a page store in the host's memory."""

from collections.abc import Callable

import numpy as np

from services.engine.cache.page_index import PageIndex
from services.engine.cache.page_key import PageKey
from services.engine.cache.page_store import Page


class MemoryPages:
    """A PageStore whose memory the system gives as pages are first put; all is gone with the process."""

    problem = ""
    num_dropped = 0

    def __init__(self, *, num_slots: int, page_bytes: int) -> None:
        """Raises MemoryError."""
        self.num_slots, self.page_bytes = num_slots, page_bytes
        self._slots = np.empty((num_slots, page_bytes), np.uint8)
        self._index = PageIndex(num_slots)

    @property
    def num_pages(self) -> int:
        """How many it holds."""
        return len(self._index)

    def put(self, key: PageKey, fill: Callable[[Page], None]) -> bool:
        """Hold a page; False if it was held already."""
        if self._index.renew(key):
            return False
        fill(self._slots[self._index.add(key)])
        return True

    def has(self, key: PageKey) -> bool:
        """Whether it holds a page."""
        return self._index.find(key) is not None

    def get(self, key: PageKey) -> Page | None:
        """The slot of a page, if it is held."""
        slot = self._index.find(key)
        return None if slot is None else self._slots[slot]

    def clear(self) -> None:
        """Hold nothing any more."""
        self._index.clear()

    def close(self) -> None:
        """Nothing is left to be done."""
