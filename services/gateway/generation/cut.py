"""Whether an answer was cut: it did not come to its own end."""

from outrider import FinishReason, Result

_CUTS = {
    FinishReason.MAX_TOKENS,
    FinishReason.CONTEXT_LENGTH,
    FinishReason.DEADLINE,
    FinishReason.TIME_LIMIT,
    FinishReason.LOOP,
    FinishReason.GRAMMAR_INCOMPLETE,
}


def is_cut(result: Result) -> bool:
    """Return whether a limit has cut the answer, so that a form in it may be incomplete."""
    return result.finish_reason in _CUTS
