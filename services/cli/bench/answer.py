"""Answer: one generation, as whoever asked for it saw it."""

from dataclasses import dataclass

from outrider import Result


@dataclass(frozen=True, slots=True)
class Answer:
    """Times are in seconds; decoding is from the first tokens to the last, as near to the engine as it tells."""

    token_ids: tuple[int, ...]
    first_token: float  # from the request to the first tokens
    num_first: int  # tokens that came then
    decode: float
    tokens_per_pass: float | None = None  # where it is known
    gaps: tuple[float, ...] = ()  # between arrivals, where each was seen
    result: Result | None = None  # what Outrider says of it

    @property
    def rate(self) -> float:
        """Tokens per second of decoding."""
        return (len(self.token_ids) - self.num_first) / self.decode
