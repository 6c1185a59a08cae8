"""FeedbackReplay: restores the state of feedback samplers (Mirostat, adaptive-p) after the received tokens."""

import math
from collections.abc import Iterator
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.engine.request import OutputOptions, Request
from services.engine.sampling_state import new_request_state


class FeedbackReplay:
    """The feedback levels after the received tokens are computed again, each from the row that its token was drawn
    from, now with a known token. Each is taken once and in order, however often the rows are computed.
    """

    def __init__(self, request: Request) -> None:
        self.sampling = new_request_state(request, request.prompt, output=OutputOptions(), forced=True)
        self.levels: list[float] = []
        self._request = request
        self._grammar = None if request.grammar is None else request.grammar.begin((), stop_ids=request.stops.token_ids)
        self._thought = request.begin_thought()

    @property
    def num_skippable(self) -> int:
        """The number of leading tokens whose rows are not needed, or not needed any more."""
        return len(self._request.prompt) + len(self.levels) - 1

    def targets(self, first_row: int, num_rows: int) -> list[int]:
        """The tokens whose levels these rows give for the first time; each row gives the next token's level."""
        num_prompt = len(self._request.prompt)
        first = max(first_row + 1 - num_prompt, len(self.levels))
        return [*self._request.received[first : max(first, first_row + num_rows + 1 - num_prompt)]]

    def masks(self, targets: Seq[int]) -> NDArray[np.uint32] | None:
        """The tokens that were allowed at the targets' positions, [targets, words]; None for all."""
        masks = list(self._each_mask(targets)) if self._request.masks_tokens else []
        shape = next((mask.shape for mask in masks if mask is not None), None)
        if shape is None:
            return None
        every = np.full(shape, 0xFFFFFFFF, dtype=np.uint32)
        return np.concatenate([every if mask is None else mask for mask in masks])

    def take(self, token_ids: Seq[int], levels: Seq[float]) -> None:
        """Take the next tokens' levels; raises ValueError for a token that could not have been drawn."""
        for token_id, level in zip(token_ids, levels, strict=True):
            if not math.isfinite(level):
                raise ValueError(f"the token at {len(self.levels)} of those received could not be drawn there")
            self.sampling.commit([token_id], [level])
            self.levels.append(level)
            if self._grammar is not None:
                self._grammar.advance([token_id])
            if self._thought is not None:
                self._thought = self._thought.after(token_id)

    @property
    def is_complete(self) -> bool:
        """Whether the levels of all received tokens are known."""
        return len(self.levels) == len(self._request.received)

    def _each_mask(self, targets: Seq[int]) -> Iterator[NDArray[np.uint32] | None]:
        """The mask of each target, [1, words]; the targets are committed tokens, not predictions."""
        grammar, thought = self._grammar and self._grammar.fork(), self._thought
        for place, token_id in enumerate(targets, start=len(self.levels)):
            yield self._request.masks(place, grammar, thought)
            if grammar is not None:
                grammar.advance([token_id])
            if thought is not None:
                thought = thought.after(token_id)
