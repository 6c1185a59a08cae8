"""BlockManager: which sequences own which KV block, and which blocks are kept for later ones."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.prefix_cache import Key, PrefixCache


class BlockOwner(Protocol):
    """A sequence of either service: it holds the list of its blocks, in the order of its tokens."""

    tokens: list[int]
    num_computed: int
    blocks: list[int]

    @property
    def cache_scope(self) -> str | None:
        """Who may find its blocks: sequences of the same scope; None if nobody may."""


class BlockManager:
    """A pool of equal blocks of KV cache; a sequence's blocks hold its tokens in order.

    Several sequences may own a block. One that somebody else owns too, or that the prefix cache can find, is not
    written any more: whoever has to gets a copy. A free block that can be found stays so until there is no other.
    """

    def __init__(
        self,
        *,
        num_blocks: int,
        block_size: int,
        copy_block: Callable[[int, int], None] | None = None,
        keeps_prefixes: bool = True,
        offload: KvOffload | None = None,
    ) -> None:
        """`copy_block` copies a block's keys and values onto another; who never shares nor rewinds needs none. With an
        `offload`, blocks that can be found no longer come back from there.
        """
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._copy_block = copy_block
        self._keeps_prefixes = keeps_prefixes
        self._offload = offload
        self._cache = PrefixCache()
        self._num_owners = [0] * num_blocks
        self._empty = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """Blocks that no sequence owns."""
        return len(self._empty) + self._cache.num_idle

    @property
    def num_by_state(self) -> dict[str, int]:
        """Blocks that sequences own, and of the others those that hold what one to come may find, and the rest."""
        num_empty, num_cached = len(self._empty), self._cache.num_idle
        return {"used": self.num_blocks - num_empty - num_cached, "cached": num_cached, "empty": num_empty}

    @property
    def num_findable(self) -> int:
        """Blocks that a sequence with the same tokens would find, owned or not."""
        return len(self._cache)

    @property
    def empty(self) -> list[int]:
        """The free blocks that hold nothing to be found."""
        return [*self._empty]

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-num_tokens // self.block_size)

    def num_available(self, sequence: BlockOwner) -> int:
        """How many further blocks a sequence can get: it takes one for a copy where it may not write on."""
        return self.num_free - (not self._may_go_on(sequence))

    def can_grow(self, sequence: BlockOwner, num_tokens: int) -> bool:
        """Whether the sequence's blocks can come to hold `num_tokens` without taking any from another."""
        return self._num_missing(sequence, num_tokens) <= self.num_free

    def can_grow_together(self, lengths: Iterable[tuple[BlockOwner, int]]) -> bool:
        """Whether each of several sequences can come to hold so many tokens, and the others do then too."""
        return sum(self._num_missing(sequence, num_tokens) for sequence, num_tokens in lengths) <= self.num_free

    def _num_missing(self, sequence: BlockOwner, num_tokens: int) -> int:
        """How many of the free blocks that takes."""
        num_kept = len(sequence.blocks) if self._may_go_on(sequence) else sequence.num_computed // self.block_size
        return max(0, self.blocks_for(num_tokens) - num_kept)

    def grow(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Give the sequence blocks for its first `num_tokens` tokens, those behind the computed ones for it to write.

        The caller has asked `can_grow`.
        """
        if not self._may_go_on(sequence):
            self._make_own(sequence)
        while len(sequence.blocks) < self.blocks_for(num_tokens):
            sequence.blocks.append(self._take())

    def shrink(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Take back the blocks beyond the sequence's first `num_tokens` tokens."""
        self._cut(sequence, self.blocks_for(num_tokens))

    def release(self, sequence: BlockOwner) -> None:
        """Take back all blocks; nothing of the sequence is computed then."""
        self._cut(sequence, 0)
        sequence.num_computed = 0

    def share(self, sequence: BlockOwner, other: BlockOwner, num_tokens: int) -> None:
        """Let a sequence without blocks own those of its first tokens too, which another has computed as its own."""
        for block in other.blocks[: self.blocks_for(num_tokens)]:
            self._own(block)
            sequence.blocks.append(block)
        sequence.num_computed = num_tokens

    def reuse(self, sequence: BlockOwner, most: int | None = None) -> None:
        """Let a sequence go on from what is cached of its next tokens: full blocks, of its first `most` tokens, by
        default all but the last one, which `most` has to leave out too.
        """
        size = self.block_size
        most = len(sequence.tokens) - 1 if most is None else most
        is_cached = self._is_cached(sequence) and all(block in self._cache for block in sequence.blocks[-1:])
        while is_cached and sequence.num_computed == len(sequence.blocks) * size <= most - size:
            key = self._key(sequence, len(sequence.blocks))
            block = self._cache.find(key)
            if block is None and (block := self._bring_back(key)) is None:
                return
            self._own(block)
            sequence.blocks.append(block)
            sequence.num_computed += size

    def keep(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Let others find the full blocks of the sequence's first tokens, which are computed and committed.

        A block that holds what a cached one holds already is given back in exchange for that one.
        """
        if not self._is_cached(sequence):
            return
        first = end = num_tokens // self.block_size
        while first > 0 and sequence.blocks[first - 1] not in self._cache:
            first -= 1
        for index in range(first, end):
            block, key = sequence.blocks[index], self._key(sequence, index)
            if (same := self._cache.find(key)) is None:
                self._add(key, block)
            else:
                self._own(same)
                self._give_up(block)
                sequence.blocks[index] = same

    def forget(self) -> int:
        """Let no block be found any more, nor brought back, and return how many could be, of the cache and the offload;
        those that sequences own stay theirs, and can be found again once these are kept anew.
        """
        count = len(self._cache)
        self._empty += self._cache.clear()
        if self._offload is not None:
            count += self._offload.forget()
        return count

    def check_integrity(self, sequences: Iterable[BlockOwner]) -> None:
        """Raise AssertionError unless every block is free, or owned by as many of `sequences` as it is known to be."""
        owners = Counter(block for sequence in sequences for block in sequence.blocks)
        num_owners = [owners[block] for block in range(self.num_blocks)]
        free = [block for block, count in enumerate(num_owners) if count == 0]
        if num_owners != self._num_owners or sorted([*self._empty, *self._cache.idle]) != free:
            raise AssertionError(f"KV blocks leaked or shared: {len(owners)} owned, {self.num_free} free")
        self._cache.check_integrity()
        if self._offload is not None:
            self._offload.check_integrity({block for block in range(self.num_blocks) if block in self._cache})

    def _is_cached(self, sequence: BlockOwner) -> bool:
        return self._keeps_prefixes and sequence.cache_scope is not None

    def _key(self, sequence: BlockOwner, index: int) -> Key:
        """What a cached sequence's block is found by; those before it are cached."""
        start = index * self.block_size
        assert sequence.cache_scope is not None
        prefix = sequence.blocks[index - 1] if index else sequence.cache_scope
        return prefix, tuple(sequence.tokens[start : start + self.block_size])

    def _may_write(self, block: int) -> bool:
        return self._num_owners[block] == 1 and block not in self._cache

    def _may_go_on(self, sequence: BlockOwner) -> bool:
        """Whether the sequence may write its next rows into the blocks that it has."""
        index = sequence.num_computed // self.block_size
        return index >= len(sequence.blocks) or self._may_write(sequence.blocks[index])  # and so all behind it

    def _make_own(self, sequence: BlockOwner) -> None:
        """Take the blocks behind the computed tokens back, and put a copy in the place of one that holds some."""
        self._cut(sequence, self.blocks_for(sequence.num_computed))
        if sequence.num_computed % self.block_size:
            assert self._copy_block is not None
            block, copy = sequence.blocks.pop(), self._take()
            self._copy_block(block, copy)
            sequence.blocks.append(copy)
            self._give_up(block)

    def _cut(self, sequence: BlockOwner, num_blocks: int) -> None:
        while len(sequence.blocks) > num_blocks:
            self._give_up(sequence.blocks.pop())

    def _take(self) -> int:
        block = self._empty.pop() if self._empty else self._evict()
        self._num_owners[block] = 1
        return block

    def _evict(self) -> int:
        block = self._cache.evict()
        if self._offload is not None:
            self._offload.save(block)
        return block

    def _add(self, key: Key, block: int) -> None:
        """Let an owned block be found."""
        self._cache.add(key, block)
        if self._offload is not None:
            self._offload.note(block, key)

    def _bring_back(self, key: Key) -> int | None:
        """A free block that holds what was found by this key before, and is found by it again."""
        if self._offload is None or not self.num_free or not self._offload.has(key):
            return None
        block = self._take()  # for which the store may drop what is wanted: it is read only then
        if is_back := self._offload.restore(key, block):
            self._add(key, block)
        self._give_up(block)
        return block if is_back else None

    def _own(self, block: int) -> None:
        if self._num_owners[block] == 0:
            self._cache.take_up(block)
        self._num_owners[block] += 1

    def _give_up(self, block: int) -> None:
        self._num_owners[block] -= 1
        if self._num_owners[block] == 0:
            if block in self._cache:
                self._cache.give_up(block)
            else:
                self._empty.append(block)
