"""Figures: what a generation cost, in one line."""

from outrider import Result


def figures(result: Result) -> str:
    """Tokens, their rate, the time to the first one, tokens per pass, and why the text ended."""
    num_tokens = result.usage.completion_tokens
    parts = [f"{num_tokens} token{'s' * (num_tokens != 1)}"]
    if result.timings.decode > 0 and len(result.token_ids) > 1:
        parts.append(f"{(len(result.token_ids) - 1) / result.timings.decode:.1f} tokens/s")
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
