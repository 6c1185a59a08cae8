"""Keys: what a caller shows, as OpenAI's clients do and as Anthropic's do."""

from starlette.requests import Request

_SCHEME = "bearer"


def key_of(request: Request) -> str | None:
    """The key of a request; None where it shows none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == _SCHEME and key.strip():
        return key.strip()
    return request.headers.get("x-api-key") or None
