"""Alternate: the continuation of a draft's sequence in case one of its predictions turns out to be wrong."""

import numpy as np
from numpy.typing import NDArray

from services.draft.drafted_sequence import DraftedSequence
from services.engine.cache.cached_tokens import CachedTokens
from services.engine.decoder.native import SamplingState


class Alternate:
    """A branch off a sequence's chain (the outcome cache of SSD, arXiv 2603.03251).

    Before its position the tokens are the sequence's; at its position it has the runner-up of the same coupled draw,
    and after it what the draft predicts in that case. It shares the sequence's blocks, and copies those that it writes.
    """

    def __init__(
        self, sequence: DraftedSequence, position: int, *, epoch: int, num_tokens: int, vocab_size: int
    ) -> None:
        """The branch is complete with `num_tokens` tokens from its position on."""
        self.position = position
        self.epoch = epoch
        self.text = CachedTokens(sequence.tokens[:position], cache_scope=sequence.text.cache_scope)
        self.is_sent = False
        self.adapter = sequence.adapter
        self._sequence = sequence
        self._forbidden = sequence.tokens[position]
        self._end = position + num_tokens
        self._vocab_size = vocab_size

    @property
    def tokens(self) -> list[int]:
        """The sequence's tokens before its position, then its own."""
        return self.text.tokens

    @property
    def num_missing(self) -> int:
        """Tokens that are still to be drawn."""
        return self._end - len(self.tokens)

    @property
    def num_draws(self) -> int:
        """Tokens that can be drawn in one go: the first is drawn alone, since only that draw has a forbidden token."""
        return min(1, self.num_missing) if len(self.tokens) == self.position else self.num_missing

    @property
    def is_possible(self) -> bool:
        """Whether the sequence can still continue with this branch."""
        sequence = self._sequence
        is_open = sequence.num_committed <= self.position < len(sequence.tokens)
        return is_open and sequence.tokens[: self.position] == self.tokens[: self.position]

    @property
    def branch(self) -> list[int]:
        """The tokens from its position on, which are its own."""
        return self.tokens[self.position :]

    @property
    def chain(self) -> list[int]:
        """The tokens after the committed ones."""
        return self.tokens[self._sequence.num_committed :]

    @property
    def sampling(self) -> SamplingState:
        """The target's way of drawing, with the committed tokens as history."""
        return self._sequence.sampling

    @property
    def mask(self) -> NDArray[np.uint32] | None:
        """The allowed next tokens, [1, words]: at its position all but the sequence's token, then None for all."""
        if len(self.tokens) > self.position:
            return None
        mask = np.full((1, -(-self._vocab_size // 32)), 2**32 - 1, dtype=np.uint32)
        mask[0, self._forbidden // 32] ^= np.uint32(1 << self._forbidden % 32)
        return mask
