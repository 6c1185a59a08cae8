"""Alternate: what a draft's sequence would go on with if one of its predictions turned out to be another token."""

import numpy as np
from numpy.typing import NDArray

from services.draft.drafted_sequence import DraftedSequence
from services.engine.decoder.native import SamplingState


class Alternate:
    """A branch off a sequence's chain: up to its position the tokens are the sequence's, there it has the runner-up of
    the same coupled draw, and behind that what the draft predicts then (the outcome cache of SSD, arXiv 2603.03251).

    It shares the sequence's blocks, and gets copies of those that it writes.
    """

    cache_scope = None

    def __init__(
        self, sequence: DraftedSequence, position: int, *, epoch: int, num_tokens: int, vocab_size: int
    ) -> None:
        """It is complete with `num_tokens` tokens from its position on."""
        self.position = position
        self.epoch = epoch
        self.tokens = sequence.tokens[:position]
        self.num_computed = 0
        self.blocks: list[int] = []
        self.is_told = False
        self.adapter = sequence.adapter
        self._sequence = sequence
        self._forbidden = sequence.tokens[position]
        self._end = position + num_tokens
        self._vocab_size = vocab_size

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn."""
        return len(self.tokens) - self.num_computed

    @property
    def num_missing(self) -> int:
        """Tokens that are still to be drawn."""
        return self._end - len(self.tokens)

    @property
    def num_draws(self) -> int:
        """Tokens that can be drawn in one go: what is forbidden is so for the first of them only."""
        return min(1, self.num_missing) if len(self.tokens) == self.position else self.num_missing

    @property
    def is_possible(self) -> bool:
        """Whether the sequence may still turn out so."""
        sequence = self._sequence
        is_open = sequence.num_committed <= self.position < len(sequence.tokens)
        return is_open and sequence.tokens[: self.position] == self.tokens[: self.position]

    @property
    def branch(self) -> list[int]:
        """Its own tokens."""
        return self.tokens[self.position :]

    @property
    def chain(self) -> list[int]:
        """Its tokens behind the committed ones."""
        return self.tokens[self._sequence.num_committed :]

    @property
    def sampling(self) -> SamplingState:
        """The target's way of drawing, with the committed tokens as history."""
        return self._sequence.sampling

    @property
    def mask(self) -> NDArray[np.uint32] | None:
        """What the next token may be, [1, words]: in the place of the sequence's, any but that one."""
        if len(self.tokens) > self.position:
            return None
        mask = np.full((1, -(-self._vocab_size // 32)), 2**32 - 1, dtype=np.uint32)
        mask[0, self._forbidden // 32] ^= np.uint32(1 << self._forbidden % 32)
        return mask
