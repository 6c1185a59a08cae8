"""Presence: cancellation of a request's work when its client disconnects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Receive

LEFT = 499  # nginx's status for a client that has disconnected; it is never received


@asynccontextmanager
async def unless_left(receive: Receive) -> AsyncIterator[None]:
    """Cancel the work in this context and raise ClientDisconnect when the client disconnects.

    The request's body must have been read.
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
