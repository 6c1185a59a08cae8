"""RunningGateway: a gateway inside the test's own process, on a port of its own."""

from typing import Any

import httpx2

from outrider import AsyncClient, Client
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway
from services.gateway.server import GatewayServer
from tests.harness.servers.loop_thread import LoopThread


class RunningGateway:
    """Serves in front of the targets, with an event loop on a thread of its own."""

    def __init__(self, *targets: str, **settings: Any) -> None:
        self._thread = LoopThread()
        self.targets = targets
        settings = {"listen": "127.0.0.1:0", "drain_seconds": 0, "connect_seconds": 60.0, **settings}
        self._server = self._thread.call(_make(GatewayConfig(targets=targets, **settings)))
        self.gateway: Gateway = self._server.gateway
        self._thread.call(self._server.start())
        self.url = f"http://{self._server.address}"

    def rpc(self, **options: Any) -> Client:
        """A client of the targets themselves."""
        return Client(*self.targets, **options)

    def rpc_async(self) -> AsyncClient:
        """The same for asyncio."""
        return AsyncClient(*self.targets)

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        """A request without any of the official clients."""
        return httpx2.post(f"{self.url}{path}", json=body, timeout=60, **options)

    def close(self) -> None:
        """End the gateway and its thread."""
        self._thread.call(self._server.close())
        self._thread.close()

    def __enter__(self) -> "RunningGateway":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _make(config: GatewayConfig) -> GatewayServer:
    return GatewayServer(config)
