"""Reads bodies of requests, within limits of size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from services.gateway.generation.problem import Kind, Problem

_JSON = "application/json"
_MOST_REPEATED = 64  # characters of a refused type in the message


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """Return the whole body, at most `most` bytes of JSON; raises Problem."""
    _check_type(request.headers.get("content-type", ""))
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise Problem(Kind.TOO_SLOW, f"the body has not arrived within {seconds:g} s") from None
    except ClientDisconnect:
        raise Problem(Kind.TOO_SLOW, "the body has not arrived completely") from None


def _check_type(content_type: str) -> None:
    """Require JSON: browsers let any page send plain text to any address, but JSON only with permission (CORS)."""
    if content_type.partition(";")[0].strip().lower() != _JSON:
        message = f"Content-Type: is {content_type[:_MOST_REPEATED]!r}; allowed: {_JSON}"
        raise Problem(Kind.WRONG_TYPE, message, "Content-Type")


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise Problem(Kind.TOO_LARGE, f"the body has more than {most} bytes")
    return bytes(body)
