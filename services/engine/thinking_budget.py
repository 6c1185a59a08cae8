"""ThinkingBudget: how many tokens an answer's thought may have, and what ends it then."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from services.engine.text.tokenizer import Tokenizer

_WORD_BITS = 32  # of the sampler's masks


class _Part(Enum):
    """Of an answer: what may become a thought's first mark, the thought up to its last one, and all behind it."""

    BEFORE = auto()
    THOUGHT = auto()
    BEHIND = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBudget:
    """At most `max_tokens` of a thought, then `end_ids`, one by one, which spell its last mark."""

    max_tokens: int
    is_begun: bool  # by the prompt; else the answer may begin one, with the first mark behind nothing but white space
    start: bytes
    end: bytes
    end_ids: tuple[int, ...]
    tokenizer: Tokenizer
    vocab_size: int  # of the model

    def begin(self) -> "Thought":
        """Where an answer without a token stands."""
        return Thought(self, _Part.THOUGHT if self.is_begun else _Part.BEFORE)


@dataclass(frozen=True, slots=True)
class Thought:
    """Where an answer stands with its thought, a pure function of its tokens: one for each that may follow another."""

    budget: ThinkingBudget
    part: _Part
    num_tokens: int = 0  # of the thought
    tail: bytes = b""  # that a mark may begin with

    @property
    def forced_id(self) -> int | None:
        """The only token that may be drawn next, where there is one."""
        num_beyond = self.num_tokens - self.budget.max_tokens
        is_forced = self.part is _Part.THOUGHT and 0 <= num_beyond < len(self.budget.end_ids)
        return self.budget.end_ids[num_beyond] if is_forced else None

    def after(self, token_id: int) -> "Thought":
        """Where the answer stands behind one more token."""
        text = self.tail + self.budget.tokenizer.token_bytes(token_id)
        match self.part:
            case _Part.BEFORE:
                return self._begun(text.lstrip())
            case _Part.THOUGHT:
                return self._continued(text, self.num_tokens + 1)
            case _Part.BEHIND:
                return self

    def restrict(self, masks: NDArray[np.uint32] | None, predictions: Seq[int]) -> NDArray[np.uint32] | None:
        """Return the sampler's masks, for here and behind each prediction, less all but what is forced; None forbids
        nothing.  # [1 + predictions, words]
        """
        forced = [thought.forced_id for thought in accumulate(predictions, Thought.after, initial=self)]
        if all(token_id is None for token_id in forced):
            return masks
        num_words = -(-self.budget.vocab_size // _WORD_BITS) if masks is None else masks.shape[1]
        every = np.full((len(forced), num_words), 0xFFFFFFFF, dtype=np.uint32)
        restricted = every if masks is None else masks & every  # a copy: the grammar keeps its own
        for row, token_id in enumerate(forced):
            if token_id is not None:
                word, bit = divmod(token_id, _WORD_BITS)
                kept = restricted[row, word] & np.uint32(1 << bit)
                restricted[row] = 0
                restricted[row, word] = kept
        return restricted

    def _begun(self, text: bytes) -> "Thought":
        start = self.budget.start
        if text.startswith(start):
            return self._continued(text[len(start) :], 0)
        return replace(self, tail=text) if start.startswith(text) else Thought(self.budget, _Part.BEHIND)

    def _continued(self, text: bytes, num_tokens: int) -> "Thought":
        end = self.budget.end
        if end in text:
            return Thought(self.budget, _Part.BEHIND)
        return Thought(self.budget, _Part.THOUGHT, num_tokens, text[-len(end) :])
