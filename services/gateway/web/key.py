"""Keys: the caller's key in a request, as OpenAI's or as Anthropic's clients send it."""

from starlette.requests import Request

_SCHEME = "bearer"


def key_of(request: Request) -> str | None:
    """Return the key of a request, None if it has none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == _SCHEME and key.strip():
        return key.strip()
    return request.headers.get("x-api-key") or None
