"""Presence: work for a caller ends when the caller leaves."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

LEFT = 499  # nginx's number for a caller who is gone, and reads it no more
Result = TypeVar("Result")


async def unless_left(request: Request, work: Awaitable[Result]) -> Result:
    """What the work gives; it is cancelled, and ClientDisconnect raised, when the caller leaves before.

    The body must have been read.
    """
    working, watching = asyncio.ensure_future(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
