"""PromptLogprobs: what the model thinks of the tokens of one prompt, and how many of them have been delivered."""

from collections.abc import Iterable

from services.engine.events import TokenRecord
from services.engine.request import OutputOptions
from services.engine.sampling_state import new_prompt_state


class PromptLogprobs:
    """Every token of a prompt, or each of its last ones, has one record, delivered once and in order, however often
    the prompt is computed.

    The row of a token gives the record of the token after it: of the first one nothing is known.
    """

    def __init__(self, output: OutputOptions, num_prompt: int, *, first: int = 0) -> None:
        """Those of the tokens from `first` on."""
        self.output = output.of_prompt()
        self.sampling = new_prompt_state(self.output)
        self._num_prompt = num_prompt
        self._num_delivered = first  # or not asked for

    @property
    def is_complete(self) -> bool:
        """Whether all records have been delivered."""
        return self._num_delivered == self._num_prompt

    @property
    def num_skippable(self) -> int:
        """Leading tokens whose rows give none of the records that are still to be delivered, while there are any."""
        return max(0, self._num_delivered - 1)

    def targets(self, tokens: list[int], first_row: int, num_rows: int) -> list[int]:
        """The tokens of the prompt whose records these rows give for the first time: each row that of the next token.

        They are those of the last rows, but for one that draws.
        """
        end = min(first_row + num_rows + 1, self._num_prompt)
        return tokens[max(first_row + 1, self._num_delivered) : end]

    def take(self, records: Iterable[TokenRecord], tokens: list[int]) -> tuple[TokenRecord, ...]:
        """Take the records that come next, and return them to be delivered, that of the first token before them."""
        first = () if self._num_delivered else (TokenRecord(tokens[0]),)
        delivered = (*first, *records)
        self._num_delivered += len(delivered)
        return delivered
