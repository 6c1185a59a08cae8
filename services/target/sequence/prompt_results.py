"""PromptResults: the results that a request takes from the rows of its known tokens, before a token is drawn."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import SamplingState
from services.engine.events import TokenRecord
from services.engine.request import OutputOptions, Request


class PromptResults:
    """A request that takes none; subclasses are for requests that do.

    Each result is taken once and in order, however often and in whatever chunks the tokens are computed.
    """

    output = OutputOptions()
    """The fields of the targets' records."""

    sampling: SamplingState
    """The state for the targets' records, if there are targets."""

    def __init__(self, request: Request, tokens: list[int]) -> None:
        """`tokens` are those of the sequence's own text, and grow with it."""
        self._request = request
        self._tokens = tokens

    @property
    def is_complete(self) -> bool:
        """Whether all results have been taken."""
        return True

    @property
    def num_needed(self) -> int:
        """Leading tokens whose rows are needed now: the rows after them give no wanted result, or would draw a token
        that cannot be drawn yet.
        """
        return len(self._tokens) - (not self._request.draws)

    @property
    def num_reusable(self) -> int:
        """Leading tokens that may be taken from the prefix cache: all but those whose rows give a wanted result."""
        most = len(self._tokens) - 1
        return most if self.is_complete else min(most, self._num_skippable)

    @property
    def _num_skippable(self) -> int:
        """Leading tokens whose rows give no wanted result, or one that has been taken."""
        return len(self._tokens)

    def targets(self, first_row: int, num_rows: int) -> list[int]:  # noqa: ARG002 - nothing is wanted
        """The known tokens whose records these rows give for the first time; each row gives the next token's record.

        They belong to the last of these rows, except one that draws.
        """
        return []

    def masks(self, targets: Seq[int]) -> NDArray[np.uint32] | None:  # noqa: ARG002 - as above
        """The tokens that were allowed at the targets' positions, [targets, words]; None for all."""
        return None

    def take(self, records: Seq[TokenRecord]) -> tuple[TokenRecord, ...]:  # noqa: ARG002 - as above
        """Take the next targets' records, and return those for delivery; raises ContinuationError."""
        return ()

    def states(self, first_row: int, num_rows: int) -> range:  # noqa: ARG002 - as above
        """The positions, among these rows, whose hidden states must be taken next."""
        return range(0)

    def take_states(self, states: NDArray[np.float32]) -> None:
        """Take the hidden states of `states`, [rows, hidden_size]."""

    @property
    def embedding(self) -> NDArray[np.float32] | None:
        """The prompt's pooled hidden states, [hidden_size], once they are complete; None if they are not wanted."""
        return None

    def ends_at(self, num_computed: int) -> bool:
        """Whether nothing is drawn, and everything is done once so many tokens are computed."""
        return not self._request.draws and self.is_complete and num_computed >= self.num_needed
