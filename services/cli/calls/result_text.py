"""A generation's result as text: a summary of its cost, and a table of its tokens."""

from collections.abc import Iterable, Iterator

from outrider import Candidate, Result, Token

TOKEN_HEADING = "     id        raw  processed    rank  entropy  text"


def summary(result: Result) -> str:
    """Return one line: tokens, their rate, the time to the first token, tokens per pass, and why the text ended."""
    num_tokens = result.usage.completion_tokens
    parts = [f"{num_tokens} token{'s' * (num_tokens != 1)}"]
    if rate := decode_rate(result):
        parts.append(f"{rate:.1f} tokens/s")
    if result.timings.first_token is not None:
        parts.append(f"first token after {result.timings.first_token * 1000:.0f} ms")
    if result.speculation.passes:
        parts.append(f"{result.speculation.tokens_per_pass:.2f} tokens per pass")
    if result.speculation.predicted:
        parts.append(f"{result.speculation.accepted / result.speculation.predicted:.0%} accepted")
    parts.append(f"ended by {result.finish_reason.replace('_', ' ')}")
    if result.resumed:
        parts.append(f"resumed {result.resumed} time{'s' * (result.resumed != 1)}")
    return " · ".join(parts)


def decode_rate(result: Result) -> float:
    """Return the tokens per second after the first one; 0 if there is only one, or nothing was measured."""
    num_tokens, seconds = len(result.token_ids) - 1, result.timings.decode
    return num_tokens / seconds if num_tokens > 0 and seconds > 0 else 0.0


def token_rows(tokens: Iterable[Token]) -> Iterator[str]:
    """Yield a row for each token, each followed by a row for each of its candidates."""
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
