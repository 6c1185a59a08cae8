"""PageStore: holds the contents of evicted KV blocks outside of the KV cache, within a budget."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.engine.cache.cache_journal import CacheJournal
from services.engine.cache.page_key import PageKey

Page = NDArray[np.uint8]
"""The contents of a KV block, of all layers, as they are stored.  # [block_bytes]"""


class PageStore(Protocol):
    """Holds pages by their keys. It never raises: it is a cache.

    All methods are for one thread; the properties may be read on any.
    """

    @property
    def num_slots(self) -> int:
        """The most pages that it can hold."""

    @property
    def page_bytes(self) -> int:
        """The bytes of each page."""

    @property
    def num_pages(self) -> int:
        """The number of pages that it holds."""

    @property
    def num_dropped(self) -> int:
        """The number of pages that were not stored because the writer was busy, or were damaged when read."""

    @property
    def problem(self) -> str:
        """The error after which it holds nothing any more; "" if there was none."""

    def report_to(self, journal: CacheJournal) -> None:
        """Note in this journal each page that is held or dropped."""

    def put(self, key: PageKey, fill: Callable[[Page], None]) -> bool:
        """Add a page, which `fill` fills in; returns False, without calling `fill`, if it is held already."""

    def has(self, key: PageKey) -> bool:
        """Return whether it holds a page; reading may still find it damaged."""

    def get(self, key: PageKey) -> Page | None:
        """Return a page, valid until the next `put`; None if it is not held or is damaged."""

    def clear(self) -> None:
        """Remove all pages."""

    def close(self) -> None:
        """Finish writing what was put so far, and release files and threads."""
