"""Answer: one generation, as whoever asked for it saw it."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from outrider import Result


class Arrival(NamedTuple):
    """Tokens that came at a moment, in seconds on a clock that all answers share."""

    moment: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Times are in seconds; decoding is from the first tokens to the last, as near to the engine as it tells."""

    token_ids: tuple[int, ...]
    first_token: float  # from the request to the first tokens
    num_first: int  # tokens that came then
    decode: float
    tokens_per_pass: float | None = None  # where it is known
    arrivals: tuple[Arrival, ...] = ()  # where each was seen
    result: Result | None = None  # what Outrider says of it

    @property
    def rate(self) -> float:
        """Tokens per second of decoding."""
        return (len(self.token_ids) - self.num_first) / self.decode

    @property
    def gaps(self) -> list[float]:
        """The times between arrivals."""
        return [later.moment - earlier.moment for earlier, later in pairwise(self.arrivals)]


def rate_together(answers: Seq[Answer]) -> float | None:
    """Tokens per second of answers that were given at once, all of them together, while each had begun and none ended.

    None where there was no such time: the first had ended before the last began.
    """
    began = max(answer.arrivals[0].moment for answer in answers)
    ended = min(answer.arrivals[-1].moment for answer in answers)
    if ended <= began:
        return None
    arrivals = [arrival for answer in answers for arrival in answer.arrivals]
    return sum(num_tokens for moment, num_tokens in arrivals if began < moment <= ended) / (ended - began)
