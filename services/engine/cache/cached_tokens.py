"""CachedTokens: a text, how much of it is computed, and the blocks of the KV cache that hold the computed part."""

from collections.abc import Iterable
from typing import NamedTuple


class KeptState(NamedTuple):
    """A copy of a text's state at a position; unless it lasts, the next copy takes its place."""

    slot: int
    position: int
    lasts: bool


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
        self.slot: int | None = None  # of its state, while it has one
        self.state_position = 0  # tokens that the stored state has seen
        self.kept: KeptState | None = None  # by the next pass
        self.is_pinned = False  # whether its blocks, and the state at their end, are kept for a session
        self.last_kept: int | None = None  # the block at whose end the last state was kept, if the next takes its place

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn: 1 while decoding."""
        return len(self.tokens) - self.num_computed

    def settle(self, certain: int, num_others: int = 0) -> None:
        """Count the rows of a pass as computed: those before `certain`, which no verdict could reject, and those after.

        If tokens were taken back, the state may have seen more than is left: it cannot go back.
        """
        self.state_position = certain
        self.num_computed = min(certain + num_others, len(self.tokens) - 1)

    def rewind(self, start: int, token_ids: Iterable[int]) -> None:
        """Replace the tokens from `start` on; those before it stay computed."""
        self.tokens[start:] = token_ids
        self.num_computed = min(self.num_computed, start, max(len(self.tokens) - 1, 0))
