"""Gateway: the state that all endpoints share."""

import asyncio
from contextlib import AbstractAsyncContextManager

from starlette.requests import Request

from outrider import AsyncClient
from outrider.servers.channel import is_local
from services.gateway.config import GatewayConfig
from services.gateway.generation.clients import Caller, Clients
from services.gateway.metrics import GatewayMetrics
from services.gateway.web.body import read_body
from services.gateway.web.key import key_of
from services.gateway.web.traces import Traces


class Gateway:
    """The clients of the targets, and the limits of requests."""

    def __init__(self, config: GatewayConfig) -> None:
        """Must be made on the event loop. Raises ConfigError for bad files, and for packages that are not installed."""
        self._config = config
        self._credentials = config.credentials.watch()
        self._sends_keys = config.credentials.authorities is not None or all(map(is_local, config.targets))
        self._clients = Clients(self._connect)
        self.metrics = GatewayMetrics()
        self.traces = Traces(config.otlp_endpoint)
        self.demo_controls = config.demo_controls
        self.ping_seconds = config.ping_seconds

    async def body_of(self, request: Request) -> bytes:
        """Return a request's body; raises Problem if it is too large or too slow."""
        return await read_body(request, most=self._config.max_body, seconds=self._config.body_seconds)

    def client_for(self, request: Request) -> AbstractAsyncContextManager[AsyncClient]:
        """Lend the client that sends the caller's key to the targets, unless others could read the key on the way."""
        return self._lent(key_of(request) if self._sends_keys else None)

    def client_without_key(self) -> AbstractAsyncContextManager[AsyncClient]:
        """Lend a client that sends no key."""
        return self._lent(None)

    async def close(self) -> None:
        """Close the connections to the targets."""
        await self._clients.close()
        await asyncio.to_thread(self.traces.close)

    def _lent(self, key: str | None) -> AbstractAsyncContextManager[AsyncClient]:
        return self._clients.lent(Caller(key, self._credentials().channel))

    def _connect(self, caller: Caller) -> AsyncClient:
        return AsyncClient(
            *self._config.targets,
            credentials=caller.channel,
            token=caller.key,
            max_retries=self._config.max_retries,
            connect_timeout=self._config.connect_seconds,
            hedge_after=self._config.hedge_seconds,
        )
