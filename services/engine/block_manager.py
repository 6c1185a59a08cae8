"""BlockManager: which sequences own which KV block, and which blocks are kept for later ones."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from services.engine.prefix_cache import Prefix, PrefixCache


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
    ) -> None:
        """`copy_block` copies a block's keys and values onto another; who never shares nor rewinds needs none."""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._copy_block = copy_block
        self._keeps_prefixes = keeps_prefixes
        self._cache = PrefixCache()
        self._num_owners = [0] * num_blocks
        self._empty = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """Blocks that no sequence owns."""
        return len(self._empty) + self._cache.num_idle

    @property
    def empty(self) -> list[int]:
        """The free blocks that hold nothing to be found."""
        return [*self._empty]

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-num_tokens // self.block_size)

    def num_available(self, sequence: BlockOwner) -> int:
        """Free blocks that the sequence can come to own beside those that it may write."""
        return self.num_free - self._must_copy(sequence)

    def can_grow(self, sequence: BlockOwner, num_tokens: int) -> bool:
        """Whether the sequence's blocks can come to hold `num_tokens` without taking any from another."""
        return self.blocks_for(num_tokens) - self._num_usable(sequence) <= self.num_available(sequence)

    def grow(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Give the sequence blocks for its first `num_tokens` tokens, those behind the computed ones for it to write.

        The caller has asked `can_grow`.
        """
        self._cut(sequence, self._num_usable(sequence))
        if self._must_copy(sequence):
            self._copy(sequence, sequence.num_computed // self.block_size)
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

    def reuse(self, sequence: BlockOwner) -> None:
        """Let a sequence go on from what is cached of its next tokens: full blocks, and never its last token."""
        size = self.block_size
        while (start := sequence.num_computed) == len(sequence.blocks) * size and start + size < len(sequence.tokens):
            block = self._find(sequence, len(sequence.blocks))
            if block is None:
                return
            self._own(block)
            sequence.blocks.append(block)
            sequence.num_computed += size

    def keep(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Let others find the full blocks of the sequence's first tokens, which are computed and committed.

        A block that holds what a cached one holds already is given back in exchange for that one.
        """
        end = num_tokens // self.block_size
        first = end
        while first > 0 and sequence.blocks[first - 1] not in self._cache:
            first -= 1
        for index in range(first, end):
            prefix = self._prefix(sequence, index)
            if prefix is None:
                return
            block = sequence.blocks[index]
            if (same := self._find(sequence, index)) is None:
                self._cache.add(prefix, self._tokens(sequence, index), block)
            else:
                self._own(same)
                self._give_up(block)
                sequence.blocks[index] = same

    def check_integrity(self, sequences: Iterable[BlockOwner]) -> None:
        """Raise AssertionError unless every block is free, or owned by as many of `sequences` as it is known to be."""
        owners = Counter(block for sequence in sequences for block in sequence.blocks)
        num_owners = [owners[block] for block in range(self.num_blocks)]
        free = [block for block, count in enumerate(num_owners) if count == 0]
        if num_owners != self._num_owners or sorted([*self._empty, *self._cache.idle]) != free:
            raise AssertionError(f"KV blocks leaked or shared: {len(owners)} owned, {self.num_free} free")
        self._cache.check_integrity()

    def _prefix(self, sequence: BlockOwner, index: int) -> Prefix | None:
        """By what a sequence's block is found, beside its tokens; None if it cannot be."""
        if not self._keeps_prefixes or sequence.cache_scope is None:
            return None
        if index == 0:
            return sequence.cache_scope
        before = sequence.blocks[index - 1]
        return before if before in self._cache else None

    def _tokens(self, sequence: BlockOwner, index: int) -> tuple[int, ...]:
        return tuple(sequence.tokens[index * self.block_size : (index + 1) * self.block_size])

    def _find(self, sequence: BlockOwner, index: int) -> int | None:
        prefix = self._prefix(sequence, index)
        return None if prefix is None else self._cache.find(prefix, self._tokens(sequence, index))

    def _may_write(self, block: int) -> bool:
        return self._num_owners[block] == 1 and block not in self._cache

    def _must_copy(self, sequence: BlockOwner) -> bool:
        """Whether the block that the sequence's next row goes into holds rows before it and is not to be written."""
        index, offset = divmod(sequence.num_computed, self.block_size)
        return offset > 0 and not self._may_write(sequence.blocks[index])

    def _num_usable(self, sequence: BlockOwner) -> int:
        """The sequence's blocks, less those behind the computed tokens where they are not to be written."""
        computed = self.blocks_for(sequence.num_computed)
        behind = sequence.blocks[computed : computed + 1]  # if this one may be written, so may those behind it
        return len(sequence.blocks) if all(map(self._may_write, behind)) else computed

    def _copy(self, sequence: BlockOwner, index: int) -> None:
        assert self._copy_block is not None
        block, copy = sequence.blocks[index], self._take()
        self._copy_block(block, copy)
        sequence.blocks[index] = copy
        self._give_up(block)

    def _cut(self, sequence: BlockOwner, num_blocks: int) -> None:
        while len(sequence.blocks) > num_blocks:
            self._give_up(sequence.blocks.pop())

    def _take(self) -> int:
        block = self._empty.pop() if self._empty else self._cache.evict()
        self._num_owners[block] = 1
        return block

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
