"""GrammarState: where one text stands in its grammar, and what it may go on with."""

import logging
from collections.abc import Collection
from collections.abc import Sequence as Tokens
from itertools import takewhile

import numpy as np
from llguidance import LLMatcher
from llguidance.numpy import fill_next_token_bitmask, get_bitmask_shape
from numpy.typing import NDArray

logger = logging.getLogger(__name__)


class GrammarState:
    """A pure function of the tokens: whatever was looked at ahead of them, or taken back again, leaves no trace.

    A token that the grammar forbids, and all that follow it, are counted but not followed: nothing may be drawn behind
    them until they are taken back.
    """

    def __init__(
        self, matcher: LLMatcher, scout: LLMatcher | None, *, stop_ids: Collection[int], vocab_size: int
    ) -> None:
        """Both matchers know one id more than the vocabulary has: the last one stands for the end of the text.

        Predictions are for the scout: a matcher that has found something too costly is broken for good, and a wrong
        prediction must not break the one that the text itself depends on. Without a scout no prediction is allowed.
        """
        self._matcher = matcher
        self._scout = scout
        self._end_id = vocab_size
        self._stop_ids = frozenset(stop_ids)
        self._stop_mask = _mask_of(self._stop_ids, vocab_size)
        self._num_followed = 0
        self._num_strayed = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of the text so far."""
        return self._num_followed + self._num_strayed

    @property
    def has_strayed(self) -> bool:
        """Whether the text does not follow the grammar."""
        return self._num_strayed > 0

    def advance(self, token_ids: Tokens[int]) -> None:
        """The text goes on; a token that ends it is none of it."""
        num_followed = 0 if self._num_strayed else self._matcher.try_consume_tokens([*token_ids])
        if self._scout is not None and self._scout.try_consume_tokens([*token_ids[:num_followed]]) < num_followed:
            self._scout = None
        self._num_followed += num_followed
        self._num_strayed += len(token_ids) - num_followed

    def truncate(self, num_tokens: int) -> None:
        """Take tokens back, so that `num_tokens` are left."""
        if num_tokens < self._num_followed:
            for matcher in filter(None, (self._matcher, self._scout)):
                matcher.rollback(self._num_followed - num_tokens)
            self._num_followed = num_tokens
        self._num_strayed = min(self._num_strayed, num_tokens - self._num_followed)

    def num_allowed(self, token_ids: Tokens[int]) -> int:
        """How many of these tokens the text may go on with, up to one that ends it."""
        if self._num_strayed or self._scout is None:
            return 0
        going_on = [*takewhile(lambda token_id: token_id not in self._stop_ids, token_ids)]
        return self._scout.validate_tokens(going_on)

    def masks(self, predictions: Tokens[int] = ()) -> NDArray[np.uint32]:
        """What may be drawn next, and behind each prediction if those before it come true.

        One bit per token id, [1 + len(predictions), words]. None in the first row where nothing may, or where the text
        has become too costly to follow; none in another where that is not known yet, or the prediction not allowed.
        """
        masks = np.zeros(get_bitmask_shape(1 + len(predictions), self._end_id + 1), dtype=np.int32)
        if not self._num_strayed:
            _fill(self._matcher, masks, 0)
            self._look_ahead(masks, predictions)
        return self._with_stops(masks.view(np.uint32))

    def _look_ahead(self, masks: NDArray[np.int32], predictions: Tokens[int]) -> None:
        num_followed = 0
        for row, token_id in enumerate(predictions, start=1):
            if self._scout is None or not self._scout.try_consume_tokens([token_id]):
                break
            num_followed += 1
            if not _fill(self._scout, masks, row):
                self._scout = None
        if self._scout is not None:
            self._scout.rollback(num_followed)

    def _with_stops(self, masks: NDArray[np.uint32]) -> NDArray[np.uint32]:
        word, bit = divmod(self._end_id, 32)
        may_end = (masks[:, word] >> np.uint32(bit) & 1).astype(bool)
        masks &= ~self._stop_mask
        masks[may_end] |= self._stop_mask
        return masks


def _fill(matcher: LLMatcher, masks: NDArray[np.int32], row: int) -> bool:
    """Whether the matcher can tell what may be drawn; if so, that is in the row then."""
    fill_next_token_bitmask(matcher, masks, row)
    if matcher.is_error():
        masks[row] = 0
        logger.info("a grammar cannot be followed any further: %s", matcher.stop_reason())
    return not matcher.is_error()


def _mask_of(token_ids: Collection[int], vocab_size: int) -> NDArray[np.uint32]:
    (_, num_words) = get_bitmask_shape(1, vocab_size + 1)
    mask = np.zeros(num_words, dtype=np.uint32)
    for token_id in (token_id for token_id in token_ids if token_id < vocab_size):
        mask[token_id // 32] |= np.uint32(1 << token_id % 32)
    return mask
