"""Clients: a client of the targets for each caller's key; keys are passed on as the RPC's tokens."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import grpc

from outrider import AsyncClient
from services.gateway.generation.problem import Kind, Problem

_MOST_IDLE = 64  # they share connections, so an idle client costs little


class Caller(NamedTuple):
    """The credentials of a client of the targets: the caller's key, and the gateway's own certificate."""

    key: str | None
    channel: grpc.ChannelCredentials | None


@dataclass(slots=True)
class _Client:
    client: AsyncClient
    users: int = 0


class Clients:
    """Lends clients; idle ones are kept up to a limit, with LRU eviction."""

    def __init__(self, connect: Callable[[Caller], AsyncClient]) -> None:
        """`connect` makes a client that sends its key as a token; it raises ValueError for a key that cannot be one."""
        self._connect = connect
        self._clients: OrderedDict[Caller, _Client] = OrderedDict()

    @asynccontextmanager
    async def lent(self, caller: Caller) -> AsyncIterator[AsyncClient]:
        """Lend the client of a caller; raises Problem for a key that cannot be a token."""
        if (entry := self._clients.get(caller)) is None:
            try:
                entry = self._clients[caller] = _Client(self._connect(caller))
            except ValueError as error:
                raise Problem(Kind.UNAUTHENTICATED, str(error)) from None
        self._clients.move_to_end(caller)
        entry.users += 1
        try:
            yield entry.client
        finally:
            entry.users -= 1
            await self._forget()

    async def close(self) -> None:
        """Close all clients."""
        while self._clients:
            await self._clients.popitem()[1].client.close()

    async def _forget(self) -> None:
        idle = [caller for caller, entry in self._clients.items() if not entry.users]
        for caller in idle[:-_MOST_IDLE]:
            await self._clients.pop(caller).client.close()
