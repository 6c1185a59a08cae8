"""Field names: what an API calls the fields that the RPC finds fault with."""

from collections.abc import Mapping

from outrider import InvalidArgument, OutriderError, ResourceExhausted, Violation
from services.gateway.generation.problem import Kind, Problem, kind_of

COMMON_NAMES: Mapping[str, str] = {
    "prompt.text": "prompt",
    "token_ids": "tokens",
    "text": "prompt",
    "chat": "messages",
    "chat.messages": "messages",
    "prompt.token_ids": "prompt",
    "prompt.token_ids.ids": "prompt",
    "prompt.chat": "messages",
    "prompt.chat.messages": "messages",
    "prompt.chat.tools": "tools",
    "prompt.chat.tool_choice": "tool_choice",
    "prompt.chat.tool_choice.parallel": "parallel_tool_calls",
    "prompt.chat.template_variables": "template_variables",
    "stop.strings": "stop",
    "stop.token_ids": "stop_token_ids",
    "stop.loop": "stop_on_loop",
    "grammar.choice.texts": "choice",
    "speculation.mode": "speculation",
    "cache.prefix": "prefix_cache",
    "cache.salt": "cache_salt",
    "output.top_candidates": "logprobs",
    "num_samples": "n",
}


def problem_of(error: OutriderError, names: Mapping[str, str]) -> Problem:
    """A failed call as the API tells it; every bad field is named, the first one apart too."""
    if isinstance(error, InvalidArgument) and error.violations:
        violations = [Violation(api_name(one.field, names), one.description) for one in error.violations]
        message = "; ".join(f"{field}: {description}" for field, description in violations)
        return Problem(Kind.INVALID, message, violations[0].field)
    retry_after = error.retry_after if isinstance(error, ResourceExhausted) else None
    return Problem(kind_of(error), str(error) or type(error).__name__, retry_after=retry_after)


def api_name(path: str, names: Mapping[str, str]) -> str:
    """The API's name of a path in the RPC's request: that of its longest known beginning, with what follows it."""
    known = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    if not known:
        return path.partition(".")[2] or path
    longest = max(known, key=len)
    return names[longest] + path[len(longest) :]
