"""BlockManager: which sequence owns which KV block."""

from collections.abc import Iterable
from typing import Protocol


class BlockOwner(Protocol):
    """A sequence of either service: it holds the list of its blocks, in the order of its tokens."""

    blocks: list[int]


class BlockManager:
    """A pool of equal blocks of KV cache; a sequence's blocks hold its tokens in order."""

    def __init__(self, *, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._free = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """Blocks that no sequence owns."""
        return len(self._free)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-num_tokens // self.block_size)

    def can_grow(self, sequence: BlockOwner, num_tokens: int) -> bool:
        """Whether the sequence's blocks can come to hold `num_tokens` without taking any from another."""
        return self.blocks_for(num_tokens) - len(sequence.blocks) <= self.num_free

    def grow(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Give the sequence blocks for its first `num_tokens` tokens; the caller has asked `can_grow`."""
        while len(sequence.blocks) < self.blocks_for(num_tokens):
            sequence.blocks.append(self._free.pop())

    def shrink(self, sequence: BlockOwner, num_tokens: int) -> None:
        """Take back the blocks beyond the sequence's first `num_tokens` tokens."""
        while len(sequence.blocks) > self.blocks_for(num_tokens):
            self._free.append(sequence.blocks.pop())

    def check_integrity(self, sequences: Iterable[BlockOwner]) -> None:
        """Raise AssertionError unless every block is either free or owned by exactly one of `sequences`."""
        owned = [block for sequence in sequences for block in sequence.blocks]
        if sorted(owned + self._free) != list(range(self.num_blocks)):
            raise AssertionError(f"KV blocks leaked or shared: {len(owned)} owned, {self.num_free} free")
