"""KvOffload: saves blocks that the prefix cache evicts to a page store, and restores them."""

from collections.abc import Callable

from services.engine.cache.page_key import Key, PageKey, scope_digest
from services.engine.cache.page_store import Page, PageStore
from services.engine.cache.state_pages import StatePages


class KvOffload:
    """Keeps the page key of each cached block, and moves blocks between the KV cache and a store of pages."""

    def __init__(
        self,
        store: PageStore,
        *,
        read_block: Callable[[int, Page], None],
        write_block: Callable[[int, Page], None],
        states: StatePages | None = None,
    ) -> None:
        """`read_block` copies a block's contents to a page, `write_block` a page's contents to a block. `states` are
        in the same store, where layers carry states.
        """
        self.store = store
        self._states = states
        self.num_stored = self.num_found = self.num_missed = 0  # blocks
        self._read_block, self._write_block = read_block, write_block
        self._keys: dict[int, PageKey] = {}

    def note(self, block: int, key: Key) -> None:
        """Note that a block was added to the prefix cache by this key."""
        self._keys[block] = self._page_key(key)

    def save(self, block: int) -> None:
        """Save the contents of a block that was evicted and is about to be overwritten."""
        key = self._keys.pop(block)
        self.num_stored += self.store.put(key, lambda page: self._read_block(block, page))

    def save_state(self, block: int, slot: int) -> None:
        """Save a slot's states, which are those at the end of a block, if that is in the prefix cache."""
        if self._states is not None and block in self._keys:
            self._states.save(self._keys[block], slot)

    def has_state(self, block: int) -> bool:
        """Return whether the store holds the states at the end of a block, if that is in the prefix cache."""
        return self._states is not None and block in self._keys and self._states.has(self._keys[block])

    def restore_state(self, block: int, slot: int) -> bool:
        """Copy the states at the end of a block to a slot; returns False if they are gone or damaged."""
        return self._states is not None and self._states.restore(self._keys[block], slot)

    def has(self, key: Key) -> bool:
        """Return whether the store holds the block of this key."""
        is_kept = self.store.has(self._page_key(key))
        self.num_missed += not is_kept
        return is_kept

    def restore(self, key: Key, block: int) -> bool:
        """Copy the page of this key to a block; returns False if it is gone or damaged."""
        page = self.store.get(self._page_key(key))
        if page is None:
            self.num_missed += 1
            return False
        self._write_block(block, page)
        self.num_found += 1
        return True

    def forget(self) -> int:
        """Remove all pages, after the prefix cache was emptied, and return how many there were."""
        count = self.store.num_pages
        self._keys.clear()
        self.store.clear()
        return count

    def check_integrity(self, findable: set[int]) -> None:
        """Raise AssertionError unless it knows exactly these cached blocks."""
        if self._keys.keys() != findable:
            raise AssertionError(f"{len(self._keys)} blocks are known to the offload, but {len(findable)} can be found")

    def _page_key(self, key: Key) -> PageKey:
        prefix, token_ids = key
        before = self._keys[prefix].digest if isinstance(prefix, int) else scope_digest(prefix)
        return PageKey.after(before, token_ids)
