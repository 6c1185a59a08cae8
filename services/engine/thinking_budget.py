"""ThinkingBudget: limits the tokens of an answer's thinking, and forces its end."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from services.engine.text.tokenizer import Tokenizer

_WORD_BITS = 32  # of one word of the sampler's masks


class _Part(Enum):
    """The parts of an answer: before the thinking's start mark, the thinking up to its end mark, and after it."""

    BEFORE = auto()
    THOUGHT = auto()
    AFTER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBudget:
    """At most `max_tokens` of thinking, then `end_ids` are forced, which spell the end mark."""

    max_tokens: int
    is_begun: bool  # the prompt begins the thinking; else the answer may, by the start mark after white space only
    start: bytes
    end: bytes
    end_ids: tuple[int, ...]
    tokenizer: Tokenizer
    vocab_size: int  # of the model

    def begin(self) -> "Thought":
        """Return the state of an answer without tokens."""
        return Thought(self, _Part.THOUGHT if self.is_begun else _Part.BEFORE)


@dataclass(frozen=True, slots=True)
class Thought:
    """The state of an answer's thinking, a pure function of its tokens; immutable."""

    budget: ThinkingBudget
    part: _Part
    num_tokens: int = 0  # of the thinking
    tail: bytes = b""  # the end of the text, in which a mark may begin

    @property
    def forced_id(self) -> int | None:
        """The only token that is allowed next, None if nothing is forced."""
        num_beyond = self.num_tokens - self.budget.max_tokens
        is_forced = self.part is _Part.THOUGHT and 0 <= num_beyond < len(self.budget.end_ids)
        return self.budget.end_ids[num_beyond] if is_forced else None

    def after(self, token_id: int) -> "Thought":
        """Return the state after one more token."""
        text = self.tail + self.budget.tokenizer.token_bytes(token_id)
        match self.part:
            case _Part.BEFORE:
                return self._begun(text.lstrip())
            case _Part.THOUGHT:
                return self._continued(text, self.num_tokens + 1)
            case _Part.AFTER:
                return self

    def restrict(self, masks: NDArray[np.uint32] | None, predictions: Seq[int]) -> NDArray[np.uint32] | None:
        """Return the sampler's masks for this position and after each prediction, restricted to forced tokens.

        None means no mask.  # [1 + predictions, words]
        """
        forced = [thought.forced_id for thought in accumulate(predictions, Thought.after, initial=self)]
        if all(token_id is None for token_id in forced):
            return masks
        num_words = -(-self.budget.vocab_size // _WORD_BITS) if masks is None else masks.shape[1]
        every = np.full((len(forced), num_words), 0xFFFFFFFF, dtype=np.uint32)
        restricted = every if masks is None else masks & every  # a copy: the grammar owns these
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
        return replace(self, tail=text) if start.startswith(text) else Thought(self.budget, _Part.AFTER)

    def _continued(self, text: bytes, num_tokens: int) -> "Thought":
        end = self.budget.end
        if end in text:
            return Thought(self.budget, _Part.AFTER)
        return Thought(self.budget, _Part.THOUGHT, num_tokens, text[-len(end) :])


class FreeThought:
    """Used like a Thought where thinking is not bounded; immutable."""

    forced_id = None

    def after(self, token_id: int) -> "FreeThought":  # noqa: ARG002 - no token changes it
        """Return this state."""
        return self

    def restrict(self, masks: NDArray[np.uint32] | None, predictions: Seq[int]) -> NDArray[np.uint32] | None:  # noqa: ARG002 - as above
        """Return these masks: nothing is forced."""
        return masks
