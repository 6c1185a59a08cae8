"""KvOffload: what the prefix cache has no block for any more, kept elsewhere and brought back."""

from collections.abc import Callable

from services.engine.cache.page_key import PageKey, scope_digest
from services.engine.cache.page_store import Page, PageStore
from services.engine.cache.prefix_cache import Key


class KvOffload:
    """Knows the findable blocks by what they hold, and moves their bytes between the KV cache and a store of pages."""

    def __init__(
        self, store: PageStore, *, read_block: Callable[[int, Page], None], write_block: Callable[[int, Page], None]
    ) -> None:
        """`read_block` copies all that a block holds onto a page, and `write_block` back onto any."""
        self.store = store
        self.num_stored = self.num_found = self.num_missed = 0  # blocks
        self._read_block, self._write_block = read_block, write_block
        self._keys: dict[int, PageKey] = {}

    def note(self, block: int, key: Key) -> None:
        """A block can be found by this key now."""
        self._keys[block] = self._page_key(key)

    def save(self, block: int) -> None:
        """Keep what a block holds, which can be found no longer and is about to be written."""
        key = self._keys.pop(block)
        self.num_stored += self.store.put(key, lambda page: self._read_block(block, page))

    def has(self, key: Key) -> bool:
        """Whether what would be found by this key is kept."""
        is_kept = self.store.has(self._page_key(key))
        self.num_missed += not is_kept
        return is_kept

    def restore(self, key: Key, block: int) -> bool:
        """Give a block what is kept by this key; False if that has gone, or was damaged."""
        page = self.store.get(self._page_key(key))
        if page is None:
            self.num_missed += 1
            return False
        self._write_block(block, page)
        self.num_found += 1
        return True

    def forget(self) -> int:
        """Keep nothing any more, with no block to be found either, and return how many were kept."""
        count = self.store.num_pages
        self._keys.clear()
        self.store.clear()
        return count

    def check_integrity(self, findable: set[int]) -> None:
        """Raise AssertionError unless these are the blocks that it knows."""
        if self._keys.keys() != findable:
            raise AssertionError(f"{len(self._keys)} blocks are known to the offload, but {len(findable)} can be found")

    def _page_key(self, key: Key) -> PageKey:
        prefix, token_ids = key
        before = self._keys[prefix].digest if isinstance(prefix, int) else scope_digest(prefix)
        return PageKey.behind(before, token_ids)
