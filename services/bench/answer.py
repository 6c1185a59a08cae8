"""Answer: one generation, as the client saw it."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from outrider import Result


class Arrival(NamedTuple):
    """Tokens that arrived together; the moment is in seconds on a clock that all answers share."""

    moment: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Times are in seconds; `decode` runs from the first tokens to the last, measured as near the engine as we can."""

    token_ids: tuple[int, ...]
    first_token: float  # from the request to the first tokens
    num_first: int  # tokens that arrived first, together
    decode: float
    tokens_per_pass: float | None = None  # None: not known
    arrivals: tuple[Arrival, ...] = ()  # empty: not recorded
    result: Result | None = None  # None: from another engine

    @property
    def rate(self) -> float:
        """Tokens per second of decoding."""
        return (len(self.token_ids) - self.num_first) / self.decode

    @property
    def gaps(self) -> list[float]:
        """The times between arrivals."""
        return [later.moment - earlier.moment for earlier, later in pairwise(self.arrivals)]


def rate_together(answers: Seq[Answer]) -> float | None:
    """Tokens per second of all concurrent answers together, over the time in which every one of them was arriving.

    Returns None if there was no such time: the first answer had ended before the last one began.
    """
    began = max(answer.arrivals[0].moment for answer in answers)
    ended = min(answer.arrivals[-1].moment for answer in answers)
    if ended <= began:
        return None
    arrivals = [arrival for answer in answers for arrival in answer.arrivals]
    return sum(num_tokens for moment, num_tokens in arrivals if began < moment <= ended) / (ended - began)
