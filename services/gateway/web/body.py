"""Reads bodies of requests, within limits of size and time."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from services.gateway.generation.problem import Kind, Problem
from services.gateway.web.content_encoding import HEADER as CONTENT_ENCODING
from services.gateway.web.content_encoding import decoded

_JSON = "application/json"
_MOST_REPEATED = 64  # characters of a refused type in the message


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """Return the whole body, decompressed, at most `most` bytes of JSON; raises Problem."""
    _check_type(request.headers.get("content-type", ""))
    encoding = ",".join(request.headers.getlist(CONTENT_ENCODING))
    try:
        async with asyncio.timeout(seconds):
            return await _read(decoded(_bounded(request.stream(), most), encoding), most)
    except TimeoutError:
        raise Problem(Kind.TOO_SLOW, f"the body has not arrived within {seconds:g} s") from None
    except ClientDisconnect:
        raise Problem(Kind.TOO_SLOW, "the body has not arrived completely") from None


def _check_type(content_type: str) -> None:
    """Require JSON: browsers let any page send plain text to any address, but JSON only with permission (CORS)."""
    if content_type.partition(";")[0].strip().lower() != _JSON:
        message = f"Content-Type: is {content_type[:_MOST_REPEATED]!r}; allowed: {_JSON}"
        raise Problem(Kind.WRONG_TYPE, message, "Content-Type")


async def _read(parts: AsyncIterator[bytes], most: int) -> bytes:
    body = bytearray()
    async for part in _bounded(parts, most):
        body += part
    return bytes(body)


async def _bounded(parts: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Yield the parts; raises Problem as soon as they have more than `most` bytes together."""
    count = 0
    async for part in parts:
        count += len(part)
        if count > most:
            raise Problem(Kind.TOO_LARGE, f"the body has more than {most} bytes")
        yield part
