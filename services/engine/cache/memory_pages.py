"""MemoryPages: a page store in the host's memory."""

from collections.abc import Callable

import numpy as np

from services.engine.cache.cache_journal import CacheJournal
from services.engine.cache.page_index import PageIndex
from services.engine.cache.page_key import PageKey
from services.engine.cache.page_store import Page


class MemoryPages:
    """A PageStore whose memory the system allocates as slots are first used; its pages are lost with the process."""

    problem = ""
    num_dropped = 0

    def __init__(self, *, num_slots: int, page_bytes: int) -> None:
        """Raises MemoryError if there is no room for the slots."""
        self.num_slots, self.page_bytes = num_slots, page_bytes
        self._slots = np.empty((num_slots, page_bytes), np.uint8)
        self._index = PageIndex(num_slots)

    @property
    def num_pages(self) -> int:
        """The number of pages that it holds."""
        return len(self._index)

    def report_to(self, journal: CacheJournal) -> None:
        """Note in this journal each page that is held or dropped."""
        self._index.journal = journal

    def put(self, key: PageKey, fill: Callable[[Page], None]) -> bool:
        """Add a page; returns False if it was held already."""
        if self._index.renew(key):
            return False
        fill(self._slots[self._index.add(key)])
        return True

    def has(self, key: PageKey) -> bool:
        """Return whether it holds a page."""
        return self._index.find(key) is not None

    def get(self, key: PageKey) -> Page | None:
        """Return the page, a view of its slot that the next `put` may overwrite; None if it is not held."""
        slot = self._index.find(key)
        return None if slot is None else self._slots[slot]

    def clear(self) -> None:
        """Remove all pages."""
        self._index.clear()

    def close(self) -> None:
        """Do nothing: memory needs no closing."""
