"""PooledStates: pools the hidden states of one prompt for its embedding, as they are computed."""

import numpy as np
from numpy.typing import NDArray

from services.engine.request import Pooling, Request
from services.target.sequence.prompt_results import PromptResults


class PooledStates(PromptResults):
    """The states are added one by one, in double precision, so that the sum does not depend on the chunks."""

    def __init__(self, request: Request, tokens: list[int], pooling: Pooling) -> None:
        """The prompt has at least one token."""
        super().__init__(request, tokens)
        self._missing = _needed(pooling, len(request.prompt))
        self._count = len(self._missing)
        self._sum: NDArray[np.float64] | None = None  # [hidden_size]

    @property
    def is_complete(self) -> bool:
        """Whether all states have been taken."""
        return not self._missing

    @property
    def num_needed(self) -> int:
        """The number of leading tokens that must be computed."""
        return self._missing.stop

    @property
    def _num_skippable(self) -> int:
        return self._missing.start

    def states(self, first_row: int, num_rows: int) -> range:
        """The positions, among these rows, whose hidden states must be taken next."""
        return range(max(first_row, self._missing.start), min(first_row + num_rows, self._missing.stop))

    def take_states(self, states: NDArray[np.float32]) -> None:
        """Take the hidden states of `states`, [rows, hidden_size]."""
        for state in states:
            self._sum = state.astype(np.float64) if self._sum is None else self._sum + state
        self._missing = self._missing[len(states) :]

    @property
    def embedding(self) -> NDArray[np.float32] | None:
        """The mean of all states, rounded once, [hidden_size]; None if they have not all been taken."""
        return None if self._sum is None or self._missing else (self._sum / self._count).astype(np.float32)


def _needed(pooling: Pooling, num_prompt: int) -> range:
    """The positions of the tokens whose states are pooled."""
    match pooling:
        case Pooling.LAST:
            return range(num_prompt - 1, num_prompt)
        case Pooling.MEAN:
            return range(num_prompt)
        case Pooling.CLS:
            return range(1)
