"""HeadShortlist: the tokens that a draft or a head predicts among if the logits of all would take too long."""

from collections import OrderedDict
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from services.engine.config import check_range
from services.engine.decoder.native import Decoder
from services.engine.request import ANYBODY

_LEARNED = 4  # one in so many entries is for recently read tokens
_FEW = 64  # a mask of at most so many tokens goes onto the list as a whole


class HeadShortlist:
    """Three quarters are fixed: the special tokens and the lowest ids, which are the most frequent since a tokenizer's
    training adds frequent tokens first. The rest are the most recently read other tokens: texts repeat themselves.

    A token that is not on the list is never predicted. Those on it keep their logits and their ids' noise, so that
    the draw among them is the same as among all tokens (FR-Spec, arXiv 2502.14856, with a fixed list).
    """

    def __init__(self, decoder: Decoder, special_ids: Iterable[int], vocab_size: int, size: int) -> None:
        """Shorten a decoder's head to `size` tokens; raises ConfigError for too few, or more than the vocabulary has.

        `special_ids` are the tokenizer's special tokens.
        """
        self._vocab_size = vocab_size
        check_range("head_shortlist", size, _LEARNED, self._vocab_size)
        known_ids = (token_id for token_id in sorted(special_ids) if token_id < self._vocab_size)
        ids = [*islice(dict.fromkeys([*known_ids, *range(self._vocab_size)]), size)]
        num_fixed = size - size // _LEARNED
        self._decoder = decoder
        self._ids = np.array(ids, dtype=np.int32)
        self._is_fixed = np.zeros(self._vocab_size, dtype=bool)
        self._is_fixed[ids[:num_fixed]] = True
        # The index of each of the others in the list, the next one to be evicted first (LRU).
        self._places = OrderedDict((ids[place], place) for place in reversed(range(num_fixed, size)))
        self._bits = np.zeros(-(-self._vocab_size // 32), dtype=np.uint32)  # of all tokens on the list, as masks are
        for token_id in ids:
            self._flip(token_id)
        self._decoder.shorten_head(self._ids)

    def note(self, texts: Iterable[tuple[Seq[int], str | None]]) -> None:
        """Put tokens of texts onto the list, each with its cache scope, between two passes.

        Predictions reveal to other callers which tokens are on the list: texts in a private cache scope add nothing.
        """
        self._put([token_id for token_ids, scope in texts if scope == ANYBODY for token_id in token_ids])

    def allow(self, masks: Iterable[NDArray[np.uint32] | None]) -> None:
        """Put the tokens that each mask, [1, words], allows onto the list if they are few, or if none of them is on it.

        Without a token to draw there would be no prediction, and a draft's target would wait in vain.
        """
        for mask in masks:
            if mask is not None:
                self._allow(mask)

    def _allow(self, mask: NDArray[np.uint32]) -> None:
        is_short = int(np.bitwise_count(mask).sum()) <= _FEW
        if is_short or not (mask[0, : len(self._bits)] & self._bits).any():
            is_allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[: self._vocab_size]
            self._put(np.flatnonzero(is_allowed)[:_FEW].tolist())

    def _put(self, token_ids: Seq[int]) -> None:
        is_changed = False
        ids = np.array(token_ids, dtype=np.int64)
        for token_id in ids[~self._is_fixed[ids]].tolist():
            if token_id in self._places:
                self._places.move_to_end(token_id)
            else:
                evicted, place = self._places.popitem(last=False)
                self._places[token_id], self._ids[place] = place, token_id
                self._flip(evicted)
                self._flip(token_id)
                is_changed = True
        if is_changed:
            self._decoder.shorten_head(self._ids)

    def _flip(self, token_id: int) -> None:
        self._bits[token_id // 32] ^= np.uint32(1 << token_id % 32)


def widen_head(decoder: Decoder) -> None:
    """Let a decoder compute the logits of all tokens again."""
    decoder.shorten_head(np.empty(0, dtype=np.int32))
