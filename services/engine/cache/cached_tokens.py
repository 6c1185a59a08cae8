"""CachedTokens: a text, how much of it is computed, and the blocks of the KV cache that hold the computed part."""

from collections.abc import Iterable


class CachedTokens:
    """Tokens in order; the KV cache holds the first `num_computed` of them in `blocks`, its block table.

    The last token always counts as not computed, even if it is: the next draw needs its row.
    """

    def __init__(self, tokens: Iterable[int] = (), *, cache_scope: str | None = None) -> None:
        """Only texts of the same scope may find the blocks in the prefix cache; None: no other text may."""
        self.tokens = list(tokens)
        self.cache_scope = cache_scope
        self.num_computed = 0
        self.blocks: list[int] = []

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn: 1 while decoding."""
        return len(self.tokens) - self.num_computed

    def settle(self, num_rows: int) -> None:
        """Count the next `num_rows` tokens as computed."""
        self.num_computed = min(self.num_computed + num_rows, len(self.tokens) - 1)

    def rewind(self, start: int, token_ids: Iterable[int]) -> None:
        """Replace the tokens from `start` on; those before it stay computed."""
        self.tokens[start:] = token_ids
        self.num_computed = min(self.num_computed, start, max(len(self.tokens) - 1, 0))
