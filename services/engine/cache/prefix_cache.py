"""PrefixCache: finds KV blocks by their tokens and the prefix before them, with LRU eviction."""

import math
from collections import OrderedDict

from services.engine.cache.cache_journal import CacheJournal
from services.engine.cache.page_key import Key


class PrefixCache:
    """Full blocks by their tokens and the block before them, and so by all tokens up to their end.

    Token ids are compared, not only their hashes. Requests with the same prefix share blocks; the least recently used
    chain is evicted first, from its tail: an owner of a block owns all blocks before it and releases the last one
    first, so the idle block that was released first is never followed by a cached one.
    """

    def __init__(self) -> None:
        self._blocks: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self.journal: CacheJournal | None = None
        """Where additions and removals are noted, if others follow them."""

    def __contains__(self, block: int) -> bool:
        """Return whether a block is cached."""
        return block in self._keys

    def __len__(self) -> int:
        """Return how many blocks are cached."""
        return len(self._keys)

    @property
    def idle(self) -> list[int]:
        """The cached blocks without an owner, the least recently used first."""
        return [*self._idle]

    @property
    def num_idle(self) -> int:
        """The number of cached blocks without an owner."""
        return len(self._idle)

    def find(self, key: Key) -> int | None:
        """Return the block of these tokens after that prefix, or None if there is none."""
        return self._blocks.get(key)

    def add(self, key: Key, block: int) -> None:
        """Cache an owned block; no other block may be cached by the same key."""
        self._blocks[key] = block
        self._keys[block] = key
        if self.journal is not None:
            self.journal.store(key, block)

    def give_up(self, block: int) -> None:
        """Note that the block has no owner any more; it is now the most recently used idle block."""
        self._idle[block] = None

    def take_up(self, block: int) -> None:
        """Note that the block has an owner again."""
        del self._idle[block]

    def evict(self) -> int:
        """Remove the least recently used idle block, and return it."""
        block, _ = self._idle.popitem(last=False)
        del self._blocks[self._keys.pop(block)]
        if self.journal is not None:
            self.journal.evict(block)
        return block

    def clear(self) -> list[int]:
        """Remove all blocks, and return those that were idle."""
        idle = self.idle
        for forgotten in (self._blocks, self._keys, self._idle):
            forgotten.clear()
        if self.journal is not None:
            self.journal.clear()
        return idle

    def check_integrity(self) -> None:
        """Raise AssertionError unless every block can be found, and is evicted before the block that precedes it."""
        age = {block: index for index, block in enumerate(self._idle)}
        for block, key in self._keys.items():
            prefix, _ = key
            if self.find(key) != block:
                raise AssertionError(f"block {block} cannot be found by its key")
            if isinstance(prefix, int) and (prefix not in self or age.get(prefix, math.inf) < age.get(block, math.inf)):
                raise AssertionError(f"block {block} outlives block {prefix}, which precedes it")
        if len(self._blocks) != len(self._keys) or not age.keys() <= self._keys.keys():
            raise AssertionError("the index of blocks and that of their keys differ")
