"""ReadBlocks: the blocks of the KV cache that an attached drafter has read, so that other texts go on after them."""

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.decoder.native import BLOCK_SIZE
from services.target.speculation.attached.drafter_context import DrafterContext


class ReadBlocks:
    """For each block that a context has filled: where that context begins, and a hash of the block's text.

    The hash shows whether a block has another text by now, so that nobody has to report when blocks change hands. Some
    of its rows may be another text's all the same, e.g. the last one, which depends on the next token: then predictions
    are worse, and nothing else.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[int, int]] = {}  # the start of the context, and a hash of the text

    def note(self, context: DrafterContext, text: CachedTokens, first: int) -> None:
        """Note that the rows of a context from the position `first` on have been read."""
        for index in range(first // BLOCK_SIZE, -(-context.end // BLOCK_SIZE)):
            block, is_full = text.blocks[index], (index + 1) * BLOCK_SIZE <= context.end
            if is_full and context.start % BLOCK_SIZE == 0:
                self._blocks[block] = (context.start, _hash(text, index))
            else:
                self._blocks.pop(block, None)

    def context(self, text: CachedTokens, end: int) -> DrafterContext | None:
        """The context of the first `end` tokens of a text that has found their blocks; None if there is no whole one.

        It begins at the end of a block.
        """
        index = end // BLOCK_SIZE - 1
        if end % BLOCK_SIZE or not 0 <= index < len(text.blocks):  # it may have lost its blocks since
            return None
        start, _ = self._blocks.get(text.blocks[index], (end, 0))
        while index >= start // BLOCK_SIZE and self._blocks.get(text.blocks[index]) == (start, _hash(text, index)):
            index -= 1
        is_whole = start < end and index < start // BLOCK_SIZE
        return DrafterContext(start, end, text.blocks[start // BLOCK_SIZE]) if is_whole else None


def _hash(text: CachedTokens, index: int) -> int:
    before = text.blocks[index - 1] if index else text.cache_scope
    return hash((before, *text.tokens[index * BLOCK_SIZE : (index + 1) * BLOCK_SIZE]))
