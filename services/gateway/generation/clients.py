"""Clients: a client of the targets for each key that callers show; keys go on as the RPC's tokens."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from outrider import AsyncClient
from services.gateway.generation.problem import Kind, Problem

_MOST_IDLE = 64  # they share connections, so that one more costs little


@dataclass(slots=True)
class _Client:
    client: AsyncClient
    users: int = 0


class Clients:
    """Lends them; of those that nobody uses the ones that were used last are kept."""

    def __init__(self, connect: Callable[[str | None], AsyncClient]) -> None:
        """`connect` makes a client that shows a token; it raises ValueError for a key that cannot be one."""
        self._connect = connect
        self._clients: OrderedDict[str | None, _Client] = OrderedDict()

    @asynccontextmanager
    async def lent(self, key: str | None) -> AsyncIterator[AsyncClient]:
        """The client of a key; raises Problem for a key that cannot be a token."""
        if (entry := self._clients.get(key)) is None:
            try:
                entry = self._clients[key] = _Client(self._connect(key))
            except ValueError as error:
                raise Problem(Kind.UNAUTHENTICATED, str(error)) from None
        self._clients.move_to_end(key)
        entry.users += 1
        try:
            yield entry.client
        finally:
            entry.users -= 1
            await self._forget()

    async def close(self) -> None:
        """Close all of them."""
        while self._clients:
            await self._clients.popitem()[1].client.close()

    async def _forget(self) -> None:
        idle = [key for key, entry in self._clients.items() if not entry.users]
        for key in idle[:-_MOST_IDLE]:
            await self._clients.pop(key).client.close()
