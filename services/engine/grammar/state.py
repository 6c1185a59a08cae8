"""GrammarState: the position of one text in its grammar, and the masks of its next tokens and predictions."""

import logging
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import Future, wait
from copy import copy
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from services.engine.grammar.matcher import GrammarMatcher

logger = logging.getLogger(__name__)


class GrammarAhead:
    """The position of a text in its grammar after predictions."""

    def __init__(self, matcher: GrammarMatcher) -> None:
        """`matcher` is its own."""
        self._matcher = matcher

    def mask_after(self, token_id: int) -> NDArray[np.uint32]:
        """Return the mask after one more prediction; all zeros if that or one before is not allowed.  # [1, words]"""
        self._matcher.advance([token_id])
        return self._matcher.mask()[np.newaxis]


class GrammarState:
    """The state of a text is a pure function of its tokens; predictions and tokens taken back leave no trace.

    The text's own matcher does the same for the same text, whether it was predicted, received or sampled: make a mask,
    match a token, make a mask, and so on. A mask after predictions is a prediction itself: a token that was sampled
    with it counts only if the mask equals the one that the text's own matcher makes at that position.

    Limits count what a matcher has not met before, so a matcher that has followed a token which is taken back is
    replaced by a new one, which has followed only the tokens that are left.
    """

    def __init__(
        self,
        text: GrammarMatcher,
        scout: GrammarMatcher | None,
        renew: Callable[[Seq[int]], Future[GrammarMatcher]],
    ) -> None:
        """Predictions are matched by forks of the scout, which shares no caches with the text's matcher: a prediction
        that exceeds a limit breaks all forks. Without a scout no prediction is allowed.

        `renew` begins to make a matcher that follows a text.
        """
        self._text = text
        self._scout = scout
        self._renew = renew
        self._renewal: Future[GrammarMatcher] | None = None  # replaces the text's matcher
        self._mask: NDArray[np.uint32] | None = None  # after the last token, once it is made
        self._last_masks: list[NDArray[np.uint32]] = []  # rows of the last `masks`, from after the last token on

    @property
    def num_followed(self) -> int:
        """The number of tokens before the first that the grammar forbids."""
        return self._own.num_followed

    @property
    def is_rejected(self) -> bool:
        """Whether the text does not match the grammar."""
        return self._own.is_rejected

    @property
    def may_end(self) -> bool:
        """Whether the text so far is complete in the grammar."""
        return self._own.may_end

    @property
    def was_mask_right(self) -> bool:
        """Whether the last `masks` had the correct mask for this position, in the row after the tokens added since."""
        return bool(self._last_masks) and np.array_equal(self._own_mask(), self._last_masks[0])

    @property
    def is_ready(self) -> bool:
        """Whether no new matcher is being made; otherwise only the mask of the next token is known without a wait."""
        return self._renewal is None or self._renewal.done()

    def wait(self, seconds: float) -> None:
        """Wait at most so long until the state is ready."""
        if self._renewal is not None:
            wait([self._renewal], seconds)

    def snapshot(self) -> "GrammarState":
        """Return a copy that knows the mask of the next token, and is a state again after `restore`."""
        self._own_mask()
        other = copy(self)
        other._scout = self._scout and self._scout.fork()
        other._last_masks = []
        return other

    def restore(self, token_ids: Seq[int]) -> None:
        """Make a snapshot the state of its text, which has these tokens; it is ready after some time."""
        self._renewal = self._renew(token_ids)
        finalize(self, self._renewal.cancel)  # the text may end, by a cancelled call, before the renewal has begun

    def advance(self, token_ids: Seq[int]) -> None:
        """Match further tokens, but no stop token."""
        for token_id in token_ids:
            self._own_mask()
            self._own.advance([token_id])
            self._mask = None
        del self._last_masks[: len(token_ids)]
        if self._scout is not None:
            self._scout.advance(token_ids)

    def num_allowed(self, token_ids: Seq[int]) -> int:
        """Return how many of these tokens are allowed next, before the first that is forbidden or ends the text."""
        return 0 if self._scout is None else self._scout.num_allowed(token_ids)

    def masks(self, predictions: Seq[int] = ()) -> NDArray[np.uint32]:
        """Return the masks of the next token, and of the token after each prediction.  # [1 + len(predictions), words]

        There is one bit per token id. The first row is all zeros if no token is allowed or the text became too costly
        to match; another row is all zeros if the mask is not known yet, or the prediction before it is not allowed.
        """
        masks = np.zeros((1 + len(predictions), len(self._own_mask())), dtype=np.uint32)
        for row, mask in enumerate([self._own_mask(), *self._ahead(predictions)]):
            masks[row] = mask
        self._last_masks = [*masks]
        return masks

    def ahead(self) -> "GrammarAhead | None":
        """Return what makes masks after one prediction after another; None if no prediction is allowed, or not now."""
        return GrammarAhead(self._scout.fork()) if self._scout is not None and self.is_ready else None

    @property
    def _own(self) -> GrammarMatcher:
        """The text's own matcher; waits until it is made."""
        if self._renewal is not None:
            self._text, self._renewal = self._renewal.result(), None
        return self._text

    def _own_mask(self) -> NDArray[np.uint32]:
        if self._mask is None:
            self._mask = self._own.mask()
            if self._own.is_broken:
                logger.info("a text cannot be matched with its grammar any further: %s", self._own.error)
        return self._mask

    def _ahead(self, predictions: Seq[int]) -> Iterator[NDArray[np.uint32]]:
        """Yield the masks after the predictions, up to the first that the grammar forbids."""
        if self._scout is None:
            return
        ahead = self._scout.fork()
        for token_id in predictions:
            ahead.advance([token_id])
            if ahead.is_rejected:
                return
            yield ahead.mask()
