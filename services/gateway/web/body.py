"""Bodies of requests, within bounds of size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from services.gateway.generation.problem import Kind, Problem


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """The whole body, of so many bytes at most; raises Problem."""
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise Problem(Kind.TOO_SLOW, f"the body has not arrived within {seconds:g} s") from None
    except ClientDisconnect:
        raise Problem(Kind.TOO_SLOW, "the body has not arrived as a whole") from None


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise Problem(Kind.TOO_LARGE, f"the body has more than {most} bytes")
    return bytes(body)
