"""SequenceBlocks: KV blocks for all that a sequence computes, its negative text included."""

from collections.abc import Sequence as Seq

from services.engine.cache.block_manager import BlockManager
from services.target.sequence.sequence import Sequence


class SequenceBlocks:
    """A sequence's texts get their blocks together, or none of them does; `lengths` has one number for each text."""

    def __init__(self, blocks: BlockManager) -> None:
        self._blocks = blocks

    def can_grow(self, sequence: Sequence, lengths: Seq[int]) -> bool:
        """Whether so many first tokens of each text can come to have blocks without taking any from another."""
        texts = zip(sequence.texts, lengths, strict=True)
        return sum(self._blocks.num_missing(text, length) for text, length in texts) <= self._blocks.num_free

    def grow(self, sequence: Sequence, lengths: Seq[int]) -> None:
        """Give so many first tokens of each text blocks; the caller has asked `can_grow`."""
        for text, length in zip(sequence.texts, lengths, strict=True):
            self._blocks.grow(text, length)

    def reuse(self, sequence: Sequence) -> None:
        """Let a sequence go on from what is cached of it."""
        self._blocks.reuse(sequence, sequence.num_reusable)
        if sequence.negative is not None:
            self._blocks.reuse(sequence.negative)

    def share(self, sequence: Sequence, first: Sequence) -> None:
        """Let a sequence without blocks own those of what its first sample has computed for it."""
        self._blocks.share(sequence, first, sequence.num_shared)
        if sequence.negative is not None and first.negative is not None:
            self._blocks.share(sequence.negative, first.negative, sequence.negative.num_prompt - 1)

    def keep(self, sequence: Sequence) -> None:
        """Let others find what is computed, and take the blocks beyond the tokens back."""
        for text in sequence.texts:
            self._blocks.keep(text, text.num_computed)
            self._blocks.shrink(text, len(text.tokens))

    def end(self, sequence: Sequence) -> None:
        """Take the blocks of a sequence that has ended back, but for those that it pins."""
        self._blocks.shrink(sequence, sequence.num_pinned)
        if sequence.negative is not None:
            self._blocks.release(sequence.negative)

    def release(self, sequence: Sequence) -> None:
        """Take all blocks back; nothing of the sequence is computed then."""
        for text in sequence.texts:
            self._blocks.release(text)
