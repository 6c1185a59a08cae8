"""GatewayServer: the gateway's life, from a socket to the end of the last answer."""

import asyncio
import socket
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import uvicorn

from services.engine.config import ConfigError
from services.gateway.app import make_app
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway
from services.gateway.web.bounded_protocol import BoundedProtocol
from services.service.access.certificates import server_context, watch_certificates
from services.service.access.clear_text import check_clear_text

_BACKLOG = 1024
_LOOK_SECONDS = 0.05  # between two looks at what is left at the end
_LATE_SECONDS = 5.0  # after which answers whose connections are gone are ended
_REMEDY = "set --tls-cert and --tls-key"


class GatewayServer:
    """Made on the event loop; raises ConfigError."""

    def __init__(self, config: GatewayConfig) -> None:
        if config.tls_certificate is None:
            check_clear_text("listen", config.listen, _REMEDY, is_allowed=config.insecure)
        for target in config.targets:
            if config.credentials.authorities is None:
                check_clear_text("target", target, "set --target-tls-ca", is_allowed=config.insecure)
        files = watch_certificates(config.tls_certificate, config.tls_key, None)
        self.gateway = Gateway(config)
        self._socket = _bound(config.listen)
        protocol = partial(BoundedProtocol, most=config.max_connections, seconds=config.body_seconds)
        settings = uvicorn.Config(
            make_app(self.gateway, config.cors_origins, config.hosts),
            http=protocol,  # type: ignore[arg-type]
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_context_factory=(lambda *_: server_context(files)) if files else None,
        )
        self._server = _Server(settings)
        self._drain_seconds = config.drain_seconds
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        """Serve; connections made before wait until then."""
        self._serving = asyncio.create_task(self._server.serve([self._socket]))

    async def ended(self) -> None:
        """Return when it serves no more; `close` then raises what it failed of."""
        assert self._serving is not None
        await asyncio.wait((self._serving,))

    async def close(self) -> None:
        """Take no more requests, and return when the last answer is written, or its time is over."""
        self._server.should_exit = True
        try:
            if self._serving is not None:
                await asyncio.wait((self._serving,), timeout=self._drain_seconds)
                late = time.monotonic() + _LATE_SECONDS
                while not self._serving.done():
                    for connection in self._server.server_state.connections:
                        connection.transport.abort()  # which is to the answers as if their readers had left
                    if time.monotonic() > late:
                        for task in self._server.server_state.tasks:
                            task.cancel()  # whoever has not heard of that
                    if time.monotonic() > late + _LATE_SECONDS:
                        self._serving.cancel()  # what is open then is closed with the process
                    await asyncio.wait((self._serving,), timeout=_LOOK_SECONDS)
                if not self._serving.cancelled():
                    self._serving.result()
        finally:
            self._socket.close()


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Nothing is captured."""
        return nullcontext()


def _bound(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    try:
        return socket.create_server(
            (host.strip("[]"), int(port)), family=_family(host), backlog=_BACKLOG, reuse_port=False
        )
    except OSError as error:
        raise ConfigError(f"listen is {listen!r}, which cannot be had: {error.strerror}") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
