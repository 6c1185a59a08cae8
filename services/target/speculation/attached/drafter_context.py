"""DrafterContext: the unbroken run of a sequence's rows that an attached drafter has read."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.checkpoint.attached.drafter_fields import LONGEST_CONTEXT
from services.engine.decoder.native import BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class DrafterContext:
    """Rows from position `start` on, before position `end`; the drafter counts its positions from `start`.

    It lies in the blocks of the text: rotary embeddings depend on distances only, so that it may begin anywhere. Where
    other texts share the blocks, they may write theirs over it: then predictions are worse, and nothing else.
    """

    start: int
    end: int
    first_block: int  # in which it begins

    @classmethod
    def after(cls, context: "DrafterContext | None", text: CachedTokens, first: int) -> "DrafterContext | None":
        """The context after the rows from `first` on that the last pass has computed, of those that are certain.

        It goes on from an earlier context without a gap, or begins anew. None if there is nothing to read: all rows are
        farther from the end than a drafter sees.
        """
        first = max(first, first_to_read(text)) if context is None else first
        end = text.num_computed
        if context is not None and context._goes_on(text, min(first, end)):
            return cls(context.start, end, context.first_block)
        return cls(first, end, text.blocks[first // BLOCK_SIZE]) if first < end else None

    @classmethod
    def of_target(cls, text: CachedTokens, first: int) -> "DrafterContext | None":
        """The context of a drafter that reads its target's keys and values: all that the target has computed.

        None if the rows from `first` on, which the last pass has computed, are lost since.
        """
        return cls(0, text.num_computed, text.blocks[0]) if text.num_computed > first else None

    def _goes_on(self, text: CachedTokens, first: int) -> bool:
        index = self.start // BLOCK_SIZE
        is_there = index < len(text.blocks) and text.blocks[index] == self.first_block
        return is_there and self.start <= first <= self.end

    @property
    def length(self) -> int:
        """The number of rows."""
        return self.end - self.start

    def blocks(self, text: CachedTokens) -> Seq[int]:
        """The blocks of the context, and those after it that the text has."""
        return text.blocks[self.start // BLOCK_SIZE :]

    def room(self, text: CachedTokens) -> int:
        """The most predictions for whose rows there are blocks: the last one has none."""
        return len(self.blocks(text)) * BLOCK_SIZE - self.length + 1


def first_to_read(text: CachedTokens) -> int:
    """The first row of a text that a drafter reads; a block begins there, so that other texts can go on."""
    oldest = max(0, len(text.tokens) - LONGEST_CONTEXT)
    return -(-oldest // BLOCK_SIZE) * BLOCK_SIZE
