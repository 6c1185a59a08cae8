"""FeedbackReplay: restores the state of feedback samplers (Mirostat, adaptive-p) after the received tokens."""

import math
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import SamplingState
from services.engine.events import TokenRecord
from services.engine.request import OutputOptions, Request
from services.engine.sampling_state import new_request_state
from services.target.sequence.continuation_error import ContinuationError
from services.target.sequence.draw_state import MaskState
from services.target.sequence.prompt_results import PromptResults


class FeedbackReplay(PromptResults):
    """The feedback levels after the received tokens are computed again, each from the row that its token was drawn
    from, now with a known token.
    """

    def __init__(self, request: Request, tokens: list[int], restored: SamplingState) -> None:
        """The received tokens are committed to `restored` once all levels are known."""
        super().__init__(request, tokens)
        self.sampling = new_request_state(request, request.prompt, output=OutputOptions(), forced=True)
        self._restored = restored
        self._levels: list[float] = []
        self._allowed = MaskState(request)
        self._masks: list[NDArray[np.uint32] | None] = []  # [1, words], of tokens whose levels are not known yet

    @property
    def is_complete(self) -> bool:
        """Whether the levels of all received tokens are known."""
        return len(self._levels) == len(self._request.received)

    @property
    def num_needed(self) -> int:
        """All tokens, but before the levels are known not the last one, from which the next token is drawn."""
        return len(self._tokens) - (not self.is_complete)

    @property
    def _num_skippable(self) -> int:
        return len(self._request.prompt) + len(self._levels) - 1

    def targets(self, first_row: int, num_rows: int) -> list[int]:
        """The received tokens whose levels these rows give for the first time."""
        start = first_row + 1 - len(self._request.prompt)
        first = max(start, len(self._levels))
        return [*self._request.received[first : max(first, start + num_rows)]]

    def masks(self, targets: Seq[int]) -> NDArray[np.uint32] | None:
        """The tokens that were allowed at the targets' positions, [targets, words]; None for all."""
        if not self._request.masks_tokens:
            return None
        for token_id in targets[len(self._masks) :]:
            self._masks.append(self._allowed.masks())
            self._allowed.advance(token_id)
        masks = self._masks[: len(targets)]
        shape = next((mask.shape for mask in masks if mask is not None), None)
        if shape is None:
            return None
        every = np.full(shape, 0xFFFFFFFF, dtype=np.uint32)
        return np.concatenate([every if mask is None else mask for mask in masks])

    def take(self, records: Seq[TokenRecord]) -> tuple[TokenRecord, ...]:
        """Take the next tokens' levels; raises ContinuationError for a token that could not have been drawn."""
        for record in records:
            level = math.nan if record.level is None else record.level
            if not math.isfinite(level):
                raise ContinuationError(f"the token at {len(self._levels)} of those received could not be drawn there")
            self.sampling.commit([record.token_id], [level])
            self._levels.append(level)
        del self._masks[: len(records)]
        if records and self.is_complete:
            self._restored.commit(self._request.received, self._levels)
        return ()
