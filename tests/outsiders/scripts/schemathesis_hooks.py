"""What schemathesis asks for stays short: it looks at how requests are answered, not at long texts."""

from typing import Any

import schemathesis

_LIMITS = {
    "/v1/completions": ("max_tokens",),
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/responses": ("max_output_tokens",),
    "/v1/messages": ("max_tokens",),
}
_MOST = 4


def before_call(_: object, case: Any, __: object) -> None:
    """Take a number of tokens that is left out, or large, for a small one; what is none stays."""
    body = case.body
    if not isinstance(body, dict):
        return
    limits = _LIMITS.get(case.path, ())
    asked = [name for name in limits if body.get(name) is not None]
    for name in asked or limits[:1]:
        if body.get(name) is None or (isinstance(body[name], int) and body[name] > _MOST):
            body[name] = _MOST


schemathesis.hook(before_call)
