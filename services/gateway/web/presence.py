"""Presence: work for a caller ends when the caller leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Result = TypeVar("Result")


async def unless_left(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """What the work gives; it is cancelled, and ClientDisconnect raised, when the caller leaves before.

    The body must have been read.
    """
    working, watching = asyncio.create_task(work), asyncio.create_task(_left(request))
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
