"""The table of tokens: what the model thought of each, and what else it might have said."""

from collections.abc import Iterable, Iterator

from outrider import Candidate, Token

HEADING = "     id        raw  processed    rank  entropy  text"


def rows(tokens: Iterable[Token]) -> Iterator[str]:
    """One row per token, and below it one for each of its candidates."""
    for token in tokens:
        figures = (_figure(token.raw_logprob, 9), _figure(token.processed_logprob, 9))
        rank = "-" if token.rank is None else str(token.rank)
        yield f"{token.id:>7}  {figures[0]}  {figures[1]}  {rank:>6}  {_figure(token.entropy, 7)}  {token.text!r}"
        yield from map(_row, token.candidates)


def _row(candidate: Candidate) -> str:
    figures = (_figure(candidate.raw_logprob, 9), _figure(candidate.processed_logprob, 9))
    return f"{candidate.id:>7}  {figures[0]}  {figures[1]}  {'':>15}    {candidate.text!r}"


def _figure(value: float | None, width: int) -> str:
    return "-".rjust(width) if value is None else f"{value:>{width}.4f}"
