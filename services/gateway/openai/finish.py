"""Why an answer ended, in OpenAI's terms and in ours."""

from typing import Any

from outrider import FinishReason, Result
from services.gateway.generation.cut import is_cut


def finish_reason(result: Result) -> str:
    """Return OpenAI's finish reason: "length" if the answer was cut, also during a tool call, "error" if the model
    failed, as in vLLM; else "tool_calls" or "stop".
    """
    if is_cut(result):
        return "length"
    if result.finish_reason is FinishReason.INVALID_LOGITS:
        return "error"
    return "tool_calls" if result.message is not None and result.message.tool_calls else "stop"


def stop_reason(result: Result) -> str | int | None:
    """Return the stop string or token that ended the answer, as vLLM does; None for neither."""
    return result.stop_string if result.stop_string is not None else result.stop_token_id


def outrider_fields(result: Result) -> dict[str, Any]:
    """Return the fields that OpenAI's API lacks: the exact reason, and the seed that repeats this answer by itself."""
    return {"finish_reason": result.finish_reason.value, "seed": result.started.seed}
