"""GrammarState: where one text stands in its grammar, and what it may go on with."""

import logging
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from copy import copy

import numpy as np
from numpy.typing import NDArray

from services.engine.grammar.matcher import GrammarMatcher

logger = logging.getLogger(__name__)


class GrammarState:
    """Where a text stands, a pure function of its tokens: whatever was looked at ahead of them leaves no trace.

    The text's own matcher does the same for the same text, whether it was predicted, received or drawn: it makes a
    mask, follows a token, makes a mask, and so on. A mask that was made behind predictions is a prediction itself: what
    was drawn with it counts only if it equals the one that the text's own matcher makes there.
    """

    def __init__(self, text: GrammarMatcher, scout: GrammarMatcher | None) -> None:
        """Predictions are for forks of the scout, which shares nothing with the text: one that is too costly to follow
        breaks all forks. Without a scout no prediction is allowed.
        """
        self._text = text
        self._scout = scout
        self._mask: NDArray[np.uint32] | None = None  # behind the last token, once it is made
        self._last_masks: list[NDArray[np.uint32]] = []  # those that `masks` gave, from behind the last token on

    @property
    def num_followed(self) -> int:
        """Tokens of the text up to the first that the grammar forbids."""
        return self._text.num_followed

    @property
    def is_rejected(self) -> bool:
        """Whether the text does not follow the grammar."""
        return self._text.is_rejected

    @property
    def was_mask_right(self) -> bool:
        """Whether the last masks had the one that is right here, in their row behind the tokens that came since."""
        return bool(self._last_masks) and np.array_equal(self._own_mask(), self._last_masks[0])

    def fork(self) -> "GrammarState":
        """A copy that goes on by itself, as `GrammarMatcher.fork`."""
        other = copy(self)
        other._text, other._scout = self._text.fork(), self._scout and self._scout.fork()
        other._last_masks = []
        return other

    def advance(self, token_ids: Seq[int]) -> None:
        """Follow further tokens, none of which ends the text."""
        for token_id in token_ids:
            self._own_mask()
            self._text.advance([token_id])
            self._mask = None
        del self._last_masks[: len(token_ids)]
        if self._scout is not None:
            self._scout.advance(token_ids)

    def num_allowed(self, token_ids: Seq[int]) -> int:
        """How many of these tokens the text may go on with, up to one that ends it."""
        return 0 if self._scout is None else self._scout.num_allowed(token_ids)

    def masks(self, predictions: Seq[int] = ()) -> NDArray[np.uint32]:
        """What may be drawn next, and behind each prediction if those before it come true.

        One bit per token id, [1 + len(predictions), words]. The first row has no bit where nothing may be drawn, or
        where the text has become too costly to follow; another row has none where its mask is not known yet, or where
        the prediction before it is not allowed.
        """
        masks = np.zeros((1 + len(predictions), len(self._own_mask())), dtype=np.uint32)
        for row, mask in enumerate([self._own_mask(), *self._ahead(predictions)]):
            masks[row] = mask
        self._last_masks = [*masks]
        return masks

    def _own_mask(self) -> NDArray[np.uint32]:
        if self._mask is None:
            self._mask = self._text.mask()
            if self._text.is_broken:
                logger.info("a grammar cannot be followed any further: %s", self._text.error)
        return self._mask

    def _ahead(self, predictions: Seq[int]) -> Iterator[NDArray[np.uint32]]:
        """The masks behind the predictions that can be followed."""
        if self._scout is None:
            return
        ahead = self._scout.fork()
        for token_id in predictions:
            ahead.advance([token_id])
            if ahead.is_rejected:
                return
            yield ahead.mask()
