"""GatewayServer: runs the gateway, from opening its socket to the end of the last answer."""

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
_LOOK_SECONDS = 0.05  # between checks for remaining requests at the end
_LATE_SECONDS = 5.0  # for answers to end after their connections are closed
_REMEDY = "set --tls-cert and --tls-key"


class GatewayServer:
    """Must be made on the event loop; raises ConfigError if the address cannot be used or a file is bad."""

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
        """The address it listens at, HOST:PORT."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        """Start serving; connections that were made before are served now."""
        self._serving = asyncio.create_task(self._server.serve([self._socket]))

    async def ended(self) -> None:
        """Wait until it no longer serves; `close` then raises the reason."""
        assert self._serving is not None
        await asyncio.wait((self._serving,))

    async def close(self) -> None:
        """Accept no more requests, and wait until the last answer has ended or the drain time is over.

        Raises the exception that ended the serving, if any.
        """
        self._server.should_exit = True
        try:
            if self._serving is not None:
                await asyncio.wait((self._serving,), timeout=self._drain_seconds)
                late = time.monotonic() + _LATE_SECONDS
                while not self._serving.done():
                    for connection in self._server.server_state.connections:
                        connection.transport.abort()  # cancels the answers, as if their clients had disconnected
                    if time.monotonic() > late:
                        for task in self._server.server_state.tasks:
                            task.cancel()  # tasks that have not noticed
                    if time.monotonic() > late + _LATE_SECONDS:
                        self._serving.cancel()  # the rest is closed with the process
                    await asyncio.wait((self._serving,), timeout=_LOOK_SECONDS)
                if not self._serving.cancelled():
                    self._serving.result()
        finally:
            self._socket.close()


class _Server(uvicorn.Server):
    """Leaves signals to the caller."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Capture no signals."""
        return nullcontext()


def _bound(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    try:
        return socket.create_server(
            (host.strip("[]"), int(port)), family=_family(host), backlog=_BACKLOG, reuse_port=False
        )
    except OSError as error:
        raise ConfigError(f"listen is {listen!r}, which cannot be used: {error.strerror}") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
