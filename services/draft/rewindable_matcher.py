"""RewindableMatcher: what a grammar lets the next token of a chain be, however often the chain is cut."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.engine.grammar.matcher import GrammarMatcher


class RewindableMatcher:
    """Follows the settled tokens, and the whole text with a fork, instead of which a cut takes another."""

    def __init__(self, start: GrammarMatcher) -> None:
        """`start` has followed nothing yet."""
        self._start = start
        self._settled = start.fork()
        self._whole = start.fork()

    def cut(self, num_tokens: int) -> None:
        """Only so many tokens of the text are left."""
        if num_tokens < self._settled.num_tokens:
            self._settled = self._start.fork()
        if num_tokens < self._whole.num_tokens:
            self._whole = self._settled.fork()

    def mask(self, token_ids: Seq[int], *, num_settled: int) -> NDArray[np.uint32]:
        """What may be drawn behind this text, [words], whose first tokens are not likely to be cut."""
        self._settled.advance(token_ids[self._settled.num_tokens : num_settled])
        if self._whole.num_tokens < self._settled.num_tokens:
            self._whole = self._settled.fork()
        self._whole.advance(token_ids[self._whole.num_tokens :])
        return self._whole.mask()
