"""PrefixCache: which KV block holds the keys and values of which tokens, behind which others."""

import math
from collections import OrderedDict

Prefix = int | str
"""What comes before a block's tokens: another block, or the scope of those who may find it where it is the first."""
Key = tuple[Prefix, tuple[int, ...]]


class PrefixCache:
    """Full blocks by their tokens and the block before them, and so by all tokens up to their end.

    Ids are compared, not only their hashes. Whoever owns a block owns all before it and gives the last one up first, so
    of the blocks that nobody owns the one that was given up first has none behind it: chains lose their tails first.
    """

    def __init__(self) -> None:
        self._blocks: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, block: int) -> bool:
        """Whether a block can be found here."""
        return block in self._keys

    def __len__(self) -> int:
        """How many blocks can be found."""
        return len(self._keys)

    @property
    def idle(self) -> list[int]:
        """The blocks that nobody owns, those that were given up first in front."""
        return [*self._idle]

    @property
    def num_idle(self) -> int:
        """How many blocks nobody owns."""
        return len(self._idle)

    def find(self, key: Key) -> int | None:
        """The block that holds these tokens behind that prefix, if there is one."""
        return self._blocks.get(key)

    def add(self, key: Key, block: int) -> None:
        """Let an owned block be found; no other holds the same."""
        self._blocks[key] = block
        self._keys[block] = key

    def give_up(self, block: int) -> None:
        """Note that nobody owns the block any more."""
        self._idle[block] = None

    def take_up(self, block: int) -> None:
        """Note that somebody owns the block again."""
        del self._idle[block]

    def evict(self) -> int:
        """Forget the block that nobody has owned for longest, and return it."""
        block, _ = self._idle.popitem(last=False)
        del self._blocks[self._keys.pop(block)]
        return block

    def clear(self) -> list[int]:
        """Forget all blocks, and return those that nobody owned."""
        idle = self.idle
        for forgotten in (self._blocks, self._keys, self._idle):
            forgotten.clear()
        return idle

    def check_integrity(self) -> None:
        """Raise AssertionError unless every block can be found, and each is evicted before what it goes on from."""
        age = {block: index for index, block in enumerate(self._idle)}
        for block, key in self._keys.items():
            prefix, _ = key
            if self.find(key) != block:
                raise AssertionError(f"block {block} cannot be found by its key")
            if isinstance(prefix, int) and (prefix not in self or age.get(prefix, math.inf) < age.get(block, math.inf)):
                raise AssertionError(f"block {block} outlives block {prefix}, which it goes on from")
        if len(self._blocks) != len(self._keys) or not age.keys() <= self._keys.keys():
            raise AssertionError("the index of blocks and that of their keys differ")
