"""Field names: the names in an API for fields of the RPC, for errors about a field."""

import logging
import re
from collections.abc import Callable, Mapping

from outrider import InvalidArgument, OutriderError, ResourceExhausted, Violation
from services.gateway.generation.problem import Kind, Problem, kind_of

logger = logging.getLogger(__name__)
_INDEX = re.compile(r"\[(\d+)\]")


def chat_names(others: Mapping[str, str]) -> dict[str, str]:
    """Return an API's names for fields of the RPC's conversations; `others` replace defaults, [] means any index."""
    names = {
        "": "messages",
        ".messages": "messages",
        ".tools": "tools",
        ".tool_choice": "tool_choice",
        ".tool_choice.mode": "tool_choice",
        ".tool_choice.parallel": "parallel_tool_calls",
        ".template_variables": "template_variables",
        ".add_generation_prompt": "add_generation_prompt",
        ".continue_final_message": "continue_final_message",
        **others,
    }
    return {f"{before}chat{path}": name for path, name in names.items() for before in ("", "prompt.")}


COMMON_NAMES: Mapping[str, str] = {
    "prompt.text": "prompt",
    "token_ids": "tokens",
    "text": "prompt",
    "prompt.token_ids": "prompt",
    "prompt.token_ids.ids": "prompt",
    "prompt.infill": "suffix",
    "prompt.infill.files": "infill_files",
    **chat_names({}),
    "inputs": "input",
    "inputs[].text": "input[]",
    "inputs[].token_ids": "input[]",
    "inputs[].token_ids.ids": "input[]",
    "stop.strings": "stop",
    "stop.token_ids": "stop_token_ids",
    "stop.loop": "stop_on_loop",
    "guidance": "guidance_scale",
    "guidance.negative_prompt": "negative_prompt",
    "guidance.negative_prompt.text": "negative_prompt",
    "guidance.negative_prompt.token_ids": "negative_prompt",
    "guidance.negative_prompt.token_ids.ids": "negative_prompt",
    "guidance.scale": "guidance_scale",
    "grammar.choice.texts": "choice",
    "grammar.regex": "regex",
    "grammar.lark": "lark",
    "grammar.prefer_end": "prefer_end",
    "grammar.reasoning": "reasoning_marks",
    "grammar.reasoning.start": "reasoning_marks[0]",
    "grammar.reasoning.end": "reasoning_marks[1]",
    "speculation.mode": "speculation",
    "cache.prefix": "prefix_cache",
    "cache.salt": "cache_salt",
    "output.top_candidates": "logprobs",
    "num_samples": "n",
}


_FIXED = {
    Kind.UNAVAILABLE: "no target can be reached, or it has ended",
    Kind.BROKEN: "a target failed to serve this request",
}


def problem_of(error: OutriderError, name_of: Callable[[str], str]) -> Problem:
    """Return the Problem of a failed call; its message names every bad field, its `field` is the first one."""
    if isinstance(error, InvalidArgument) and error.violations:
        violations = [Violation(name_of(one.field), one.description) for one in error.violations]
        message = "; ".join(f"{field}: {description}" for field, description in violations)
        kind = Kind.NOT_FOUND if violations[0].field == "model" else Kind.INVALID
        return Problem(kind, message, violations[0].field)
    kind = kind_of(error)
    if kind in _FIXED:  # these messages of the client contain addresses of targets, which callers must not see
        logger.warning("a target's call failed: %s: %s", kind.value, error)
        return Problem(kind, _FIXED[kind])
    retry_after = error.retry_after if isinstance(error, ResourceExhausted) else None
    return Problem(kind, str(error) or type(error).__name__, retry_after=retry_after)


def api_name(path: str, names: Mapping[str, str]) -> str:
    """Return the API's name of a path in the RPC's request: the longest known prefix is replaced by its name."""
    pattern, indices = _INDEX.sub("[]", path), iter(_INDEX.findall(path))
    known = [name for name in names if pattern == name or pattern.startswith((f"{name}.", f"{name}["))]
    if not known:
        return path.partition(".")[2] or path
    longest = max(known, key=len)
    return re.sub(r"\[\]", lambda _: f"[{next(indices)}]", names[longest] + pattern[len(longest) :])


def common_name(path: str) -> str:
    """Return the name of a path that is common to all APIs."""
    return api_name(path, COMMON_NAMES)
