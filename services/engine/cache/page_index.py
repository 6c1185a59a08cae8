"""PageIndex: which slot of a page store holds which page, and which page goes for another."""

from collections import OrderedDict
from collections.abc import Mapping

from services.engine.cache.page_key import PageKey


class PageIndex:
    """Slots by their pages' keys, ids compared too; the page that was put longest ago is in front, and goes first."""

    def __init__(self, num_slots: int, held: Mapping[PageKey, int] | None = None) -> None:
        """`held` are the slots of pages that are there from the beginning, the first to go in front."""
        self._slots = OrderedDict(held or {})
        used = {*self._slots.values()}
        self._empty = [slot for slot in reversed(range(num_slots)) if slot not in used]

    def __len__(self) -> int:
        """How many slots hold a page."""
        return len(self._slots)

    def find(self, key: PageKey) -> int | None:
        """The slot of a page, if it has one."""
        return self._slots.get(key)

    def renew(self, key: PageKey) -> bool:
        """Let a page be the last to go; False if it is not here."""
        if key not in self._slots:
            return False
        self._slots.move_to_end(key)
        return True

    def add(self, key: PageKey) -> int:
        """Give a page that is not here a slot: an empty one, or that of the page that goes for it."""
        slot = self._empty.pop() if self._empty else self._slots.popitem(last=False)[1]
        self._slots[key] = slot
        return slot

    def remove(self, key: PageKey) -> None:
        """Forget a page that is here."""
        self._empty.append(self._slots.pop(key))

    def clear(self) -> None:
        """Forget all pages."""
        self._empty += self._slots.values()
        self._slots.clear()
