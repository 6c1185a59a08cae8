"""GrammarMatcher: a text as far as it follows a grammar, token by token."""

from collections.abc import Collection, Iterable
from collections.abc import Sequence as Seq
from copy import copy
from itertools import takewhile

import numpy as np
from llguidance import LLMatcher
from llguidance.numpy import fill_next_token_bitmask, get_bitmask_shape
from numpy.typing import NDArray


class GrammarMatcher:
    """Follows one text, forward only: what may have to be taken back is followed by a fork.

    The library can take tokens back, but then may give a mask that it remembers of them. It also forces bytes where it
    makes a mask, and may read them differently where it makes none: so the masks that were made on the way count too.

    A token that the grammar forbids, and all that follow it, are counted but not followed, and nothing may be drawn
    behind them.
    """

    def __init__(
        self, matcher: LLMatcher, *, stop_ids: Collection[int], vocab_size: int, prefers_end: bool = False
    ) -> None:
        """The library's matcher knows one id more than the vocabulary has: the last one stands for the end of the text.

        The tokens that end a text may be drawn wherever the grammar lets it end, and only there; with `prefers_end`
        nothing else may be drawn there, if there are any.
        """
        self._matcher = matcher
        self._end_id = vocab_size
        self._stop_ids = frozenset(stop_ids)
        self._stop_mask = _mask_of(self._stop_ids, vocab_size)
        self._prefers_end = prefers_end and bool(self._stop_mask.any())
        self.num_followed = 0
        """Tokens of the text up to the first that is forbidden."""
        self.num_tokens = 0
        """All tokens of the text."""

    @property
    def is_rejected(self) -> bool:
        """Whether the text does not follow the grammar."""
        return self.num_followed < self.num_tokens

    @property
    def is_broken(self) -> bool:
        """Whether the text has become too costly to follow, or cannot be ended."""
        return self._matcher.is_error()

    @property
    def error(self) -> str:
        """Why the text is broken, in one line."""
        return self._matcher.get_error().partition("\n")[0]

    def fork(self) -> "GrammarMatcher":
        """A copy that goes on by itself, but for what both learn on the way: too much for one is too much for both.

        Takes 10 µs, or 100 µs and most of a megabyte behind some thousand tokens.
        """
        other = copy(self)
        other._matcher = self._matcher.deep_copy()
        return other

    def advance(self, token_ids: Iterable[int]) -> None:
        """Follow further tokens, none of which ends the text; one behind which that becomes too costly is allowed."""
        for token_id in token_ids:
            if not (self.is_rejected or self.is_broken):
                is_followed = self._matcher.try_consume_tokens([token_id]) == 1
                self.num_followed += is_followed or self.is_broken
            self.num_tokens += 1

    def num_allowed(self, token_ids: Seq[int]) -> int:
        """How many of these tokens the text may go on with, up to one that ends it."""
        ahead = self.fork()
        ahead.advance(takewhile(lambda token_id: token_id not in self._stop_ids, token_ids))
        return ahead.num_followed - self.num_followed

    def mask(self) -> NDArray[np.uint32]:
        """What may be drawn next, one bit per token id, [words]; none where that is too costly to find out."""
        mask = np.zeros(get_bitmask_shape(1, self._end_id + 1), dtype=np.int32)
        if not self.is_rejected:
            fill_next_token_bitmask(self._matcher, mask, 0)
            if self._matcher.is_error():
                mask[:] = 0
        return self._with_stops(mask[0].view(np.uint32))

    def _with_stops(self, mask: NDArray[np.uint32]) -> NDArray[np.uint32]:
        word, bit = divmod(self._end_id, 32)
        may_end = mask[word] >> np.uint32(bit) & 1
        mask &= ~self._stop_mask
        if may_end and self._prefers_end:
            mask[:] = 0
        if may_end:
            mask |= self._stop_mask
        return mask


def _mask_of(token_ids: Collection[int], vocab_size: int) -> NDArray[np.uint32]:
    (_, num_words) = get_bitmask_shape(1, vocab_size + 1)
    mask = np.zeros(num_words, dtype=np.uint32)
    for token_id in (token_id for token_id in token_ids if token_id < vocab_size):
        mask[token_id // 32] |= np.uint32(1 << token_id % 32)
    return mask
