"""PromptLogprobs: the records of one prompt's tokens, and how many of them have been delivered."""

from collections.abc import Sequence as Seq

from services.engine.events import TokenRecord
from services.engine.request import Request
from services.engine.sampling_state import new_prompt_state
from services.target.sequence.prompt_results import PromptResults


class PromptLogprobs(PromptResults):
    """Each token of a prompt, or of its scored end, has one record; the first token has no log-probability."""

    def __init__(self, request: Request, tokens: list[int]) -> None:
        super().__init__(request, tokens)
        self.output = request.output.of_prompt()
        self.sampling = new_prompt_state(self.output)
        self._num_prompt = len(request.prompt)
        self._num_delivered = 0 if request.num_scored is None else request.num_shared  # or not requested

    @property
    def is_complete(self) -> bool:
        """Whether all records have been delivered."""
        return self._num_delivered == self._num_prompt

    @property
    def _num_skippable(self) -> int:
        return max(0, self._num_delivered - 1)

    def targets(self, first_row: int, num_rows: int) -> list[int]:
        """The prompt tokens whose records these rows give for the first time."""
        end = min(first_row + num_rows + 1, self._num_prompt)
        return self._tokens[max(first_row + 1, self._num_delivered) : end]

    def take(self, records: Seq[TokenRecord]) -> tuple[TokenRecord, ...]:
        """Take the next records, and return them with the first token's record before them."""
        first = () if self._num_delivered else (TokenRecord(self._tokens[0]),)
        delivered = (*first, *records)
        self._num_delivered += len(delivered)
        return delivered
