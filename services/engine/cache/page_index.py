"""PageIndex: the slots of a page store by their pages' keys, with LRU eviction."""

from collections import OrderedDict
from collections.abc import Mapping

from services.engine.cache.cache_journal import CacheJournal
from services.engine.cache.page_key import PageKey


class PageIndex:
    """Slots by their pages' keys, in LRU order: the page that was put or renewed least recently is evicted first.

    Keys compare token ids too, not only digests.
    """

    def __init__(self, num_slots: int, held: Mapping[PageKey, int] | None = None) -> None:
        """`held` are the slots of pages that are there from the beginning, the least recently used first."""
        self._slots = OrderedDict(held or {})
        self.journal: CacheJournal | None = None
        """Where pages that are held or dropped are noted, if others follow them; not those that `clear` removes."""
        used = {*self._slots.values()}
        self._empty = [slot for slot in reversed(range(num_slots)) if slot not in used]

    def __len__(self) -> int:
        """Return how many slots hold a page."""
        return len(self._slots)

    def find(self, key: PageKey) -> int | None:
        """Return the slot of a page, or None if it is not held."""
        return self._slots.get(key)

    def renew(self, key: PageKey) -> bool:
        """Make a page the most recently used; returns False if it is not held."""
        if key not in self._slots:
            return False
        self._slots.move_to_end(key)
        if self.journal is not None:
            self.journal.hold_page(key)
        return True

    def add(self, key: PageKey) -> int:
        """Return a slot for a page that is not held: an empty one, or that of the least recently used page."""
        if not self._empty:
            self.remove(next(iter(self._slots)))
        self._slots[key] = slot = self._empty.pop()
        if self.journal is not None:
            self.journal.hold_page(key)
        return slot

    def remove(self, key: PageKey) -> None:
        """Remove a page that is held."""
        self._empty.append(self._slots.pop(key))
        if self.journal is not None:
            self.journal.drop_page(key)

    def clear(self) -> None:
        """Remove all pages."""
        self._empty += self._slots.values()
        self._slots.clear()
