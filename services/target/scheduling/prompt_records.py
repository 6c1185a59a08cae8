"""PromptRecords: how far the tokens of one prompt have been told of."""

from collections.abc import Iterable

from services.engine.events import TokenRecord
from services.engine.request import OutputOptions, Request
from services.engine.sampling_state import new_prompt_state


class PromptRecords:
    """Every token of a prompt has one record, told once and in order, however often the prompt is computed.

    The row of a token tells of the token after it: of the first one nothing is known.
    """

    def __init__(self, output: OutputOptions, num_prompt: int) -> None:
        self.output = output.of_prompt()
        self.sampling = new_prompt_state(self.output)
        self._num_prompt = num_prompt
        self._num_told = 0

    @classmethod
    def of(cls, request: Request) -> "PromptRecords | None":
        """The records of a request's prompt, if asked; whoever has received tokens has received them before these."""
        is_asked = request.output.prompt_logprobs and not request.received
        return cls(request.output, len(request.prompt)) if is_asked else None

    @property
    def is_complete(self) -> bool:
        """Whether all tokens have been told of."""
        return self._num_told == self._num_prompt

    def untold(self, tokens: list[int], first_row: int, num_rows: int) -> list[int]:
        """The tokens of the prompt that these rows tell of for the first time: each row of the next one.

        They are those of the last rows, but for one that draws.
        """
        end = min(first_row + num_rows + 1, self._num_prompt)
        return tokens[max(first_row + 1, self._num_told) : end]

    def take(self, told: Iterable[TokenRecord], tokens: list[int]) -> tuple[TokenRecord, ...]:
        """Take the records of the tokens that come next, and return them with that of the first token before them."""
        first = () if self._num_told else (TokenRecord(tokens[0]),)
        records = (*first, *told)
        self._num_told += len(records)
        return records
