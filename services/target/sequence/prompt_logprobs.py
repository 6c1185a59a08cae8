"""PromptLogprobs: the records of one prompt's tokens, and how many of them have been delivered."""

from collections.abc import Iterable

from services.engine.events import TokenRecord
from services.engine.request import OutputOptions
from services.engine.sampling_state import new_prompt_state


class PromptLogprobs:
    """Each token of a prompt, or of its end, has one record, which is delivered once and in order, however often the
    prompt is computed.

    The row of a token gives the record of the token after it; the first token has no log-probability.
    """

    def __init__(self, output: OutputOptions, num_prompt: int, *, first: int = 0) -> None:
        """The records are those of the tokens from `first` on."""
        self.output = output.of_prompt()
        self.sampling = new_prompt_state(self.output)
        self._num_prompt = num_prompt
        self._num_delivered = first  # including those that are not requested

    @property
    def is_complete(self) -> bool:
        """Whether all records have been delivered."""
        return self._num_delivered == self._num_prompt

    @property
    def num_skippable(self) -> int:
        """The number of leading tokens whose rows give no undelivered records, while there are any."""
        return max(0, self._num_delivered - 1)

    def targets(self, tokens: list[int], first_row: int, num_rows: int) -> list[int]:
        """The prompt tokens whose records these rows give for the first time; each row gives the next token's record.

        They belong to the last of these rows, except one that draws.
        """
        end = min(first_row + num_rows + 1, self._num_prompt)
        return tokens[max(first_row + 1, self._num_delivered) : end]

    def take(self, records: Iterable[TokenRecord], tokens: list[int]) -> tuple[TokenRecord, ...]:
        """Take the next records, and return them for delivery, with the first token's record before them."""
        first = () if self._num_delivered else (TokenRecord(tokens[0]),)
        delivered = (*first, *records)
        self._num_delivered += len(delivered)
        return delivered
