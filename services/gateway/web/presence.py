"""Presence: work for a caller ends when the caller leaves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Receive

LEFT = 499  # nginx's number for a caller who is gone, and reads it no more


@asynccontextmanager
async def unless_left(receive: Receive) -> AsyncIterator[None]:
    """What is done here is cancelled, and ClientDisconnect raised, when the caller leaves.

    The body must have been read.
    """
    try:
        async with asyncio.timeout(None) as presence:
            watching = asyncio.create_task(_watch(receive, presence))
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        if presence.expired():
            raise ClientDisconnect from None
        raise


async def _watch(receive: Receive, presence: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    presence.reschedule(0)
