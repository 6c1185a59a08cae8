"""PageStore: pages of KV blocks beyond the KV cache, as many as a budget holds."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.engine.cache.page_key import PageKey

Page = NDArray[np.uint8]
"""All that a KV block holds, of every layer, as it is stored.  # [block_bytes]"""


class PageStore(Protocol):
    """Holds pages by their keys; all of it is for one thread, but for the counts. It never raises: it is a cache."""

    @property
    def num_slots(self) -> int:
        """The most pages that it holds."""

    @property
    def page_bytes(self) -> int:
        """Bytes of each."""

    @property
    def num_pages(self) -> int:
        """How many it holds."""

    @property
    def num_dropped(self) -> int:
        """Pages that could not be taken or given back: there was no time for them, or they were damaged."""

    @property
    def problem(self) -> str:
        """Why it is out of use; empty where it is not."""

    def put(self, key: PageKey, fill: Callable[[Page], None]) -> bool:
        """Hold a page, which `fill` is given to fill where it is not held already; False if it was."""

    def has(self, key: PageKey) -> bool:
        """Whether it holds a page, as far as can be told before that is read."""

    def get(self, key: PageKey) -> Page | None:
        """A page to be read before anything else is put, if it is held and whole."""

    def clear(self) -> None:
        """Hold nothing any more, of what was put before."""

    def close(self) -> None:
        """End what it does, with what was put so far."""
