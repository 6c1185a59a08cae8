"""RewindableMatcher: the tokens that a grammar allows next in a chain, however often the chain is cut."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.engine.grammar.matcher import GrammarMatcher


class RewindableMatcher:
    """One matcher follows the settled tokens; a fork of it follows the whole text, and is replaced after a cut."""

    def __init__(self, start: GrammarMatcher) -> None:
        """`start` has not followed any token yet."""
        self._start = start
        self._settled = start.fork()
        self._whole = start.fork()

    def cut(self, num_tokens: int) -> None:
        """Truncate the text to its first `num_tokens` tokens."""
        if num_tokens < self._settled.num_tokens:
            self._settled = self._start.fork()
        if num_tokens < self._whole.num_tokens:
            self._whole = self._settled.fork()

    def mask(self, token_ids: Seq[int], *, num_settled: int) -> NDArray[np.uint32]:
        """The tokens that may come after this text, [words]; its first `num_settled` tokens are unlikely to be cut."""
        self._settled.advance(token_ids[self._settled.num_tokens : num_settled])
        if self._whole.num_tokens < self._settled.num_tokens:
            self._whole = self._settled.fork()
        self._whole.advance(token_ids[self._whole.num_tokens :])
        return self._whole.mask()
