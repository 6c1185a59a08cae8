"""GrammarMatcher: matches a text with a grammar, token by token, and makes masks of the next tokens."""

from collections.abc import Collection, Iterable
from collections.abc import Sequence as Seq
from copy import copy
from itertools import takewhile

import numpy as np
from llguidance import LLMatcher
from llguidance.numpy import fill_next_token_bitmask, get_bitmask_shape
from numpy.typing import NDArray


class GrammarMatcher:
    """Matches one text, forward only: predictions, which may be rejected, go to a fork of another matcher.

    The library can rewind, but may then return a cached mask of the removed tokens. It also forces bytes when it makes
    a mask, and may read the same bytes differently if it makes none, so its state depends on the masks that were made.

    A token that the grammar forbids, and all tokens after it, are counted but not matched, and no token is allowed
    after them.
    """

    def __init__(
        self, matcher: LLMatcher, *, stop_ids: Collection[int], vocab_size: int, prefers_end: bool = False
    ) -> None:
        """The library's matcher has one more id than the vocabulary, which stands for the end of the text.

        `stop_ids` are allowed wherever the grammar lets the text end, and only there. With `prefers_end` they are the
        only tokens allowed there, if there are any.
        """
        self._matcher = matcher
        self._end_id = vocab_size
        self._stop_ids = frozenset(stop_ids)
        self._stop_mask = _mask_of(self._stop_ids, vocab_size)
        self._prefers_end = prefers_end and bool(self._stop_mask.any())
        self.num_followed = 0
        """The number of tokens before the first forbidden one."""
        self.num_tokens = 0
        """The number of all tokens of the text."""

    @property
    def is_rejected(self) -> bool:
        """Whether the text does not match the grammar."""
        return self.num_followed < self.num_tokens

    @property
    def is_broken(self) -> bool:
        """Whether the text became too costly to match, or cannot be completed."""
        return self._matcher.is_error()

    @property
    def may_end(self) -> bool:
        """Whether the text so far is complete."""
        return not (self.is_rejected or self.is_broken) and self._matcher.is_accepting()

    @property
    def error(self) -> str:
        """Why the text is broken, in one line."""
        return self._matcher.get_error().partition("\n")[0]

    def fork(self) -> "GrammarMatcher":
        """Return an independent copy; both share caches, so if one exceeds a limit, both fail.

        It takes 10 µs, or 100 µs and most of a megabyte after some thousand tokens.
        """
        other = copy(self)
        other._matcher = self._matcher.deep_copy()
        return other

    def advance(self, token_ids: Iterable[int]) -> None:
        """Match further tokens, but no stop token; a token that makes the grammar too costly counts as allowed."""
        for token_id in token_ids:
            if not (self.is_rejected or self.is_broken):
                is_followed = self._matcher.try_consume_tokens([token_id]) == 1
                self.num_followed += is_followed or self.is_broken
            self.num_tokens += 1

    def num_allowed(self, token_ids: Seq[int]) -> int:
        """Return how many of these tokens are allowed next, before the first that is forbidden or ends the text."""
        ahead = self.fork()
        ahead.advance(takewhile(lambda token_id: token_id not in self._stop_ids, token_ids))
        return ahead.num_followed - self.num_followed

    def mask(self) -> NDArray[np.uint32]:
        """Return the mask of the next token, one bit per token id; all zeros if it is too costly.  # [words]"""
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
