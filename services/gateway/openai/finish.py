"""Ends: why an answer ended, in OpenAI's words and in ours."""

from typing import Any

from outrider import FinishReason, Result

_LENGTH = {FinishReason.MAX_TOKENS, FinishReason.CONTEXT_LENGTH, FinishReason.DEADLINE, FinishReason.TIME_LIMIT}


def finish_reason(result: Result) -> str:
    """Whether a limit ended it, or the model did, perhaps with calls; one that a limit has cut is none."""
    if result.finish_reason in _LENGTH:
        return "length"
    return "tool_calls" if result.message is not None and result.message.tool_calls else "stop"


def stop_reason(result: Result) -> str | int | None:
    """The stop string or token that ended it, as other servers tell it."""
    return result.stop_string if result.stop_string is not None else result.stop_token_id


def told_by_us(result: Result) -> dict[str, Any]:
    """What OpenAI's API has no words for: why it ended exactly, and the seed that gives this answer again, alone."""
    return {"finish_reason": result.finish_reason.value, "seed": result.started.seed}
