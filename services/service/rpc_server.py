"""RpcServer: a gRPC server with health, reflection and settings for long streams."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Seq
from types import MappingProxyType
from typing import cast

from grpc import aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from services.engine.config import ConfigError
from services.engine.decoder.loading_progress import LoadingProgress
from services.service.access.access_interceptor import AccessInterceptor
from services.service.access.caller import Callers
from services.service.access.certificates import server_credentials, watch_certificates
from services.service.access.clear_text import check_clear_text
from services.service.admission import Admission, Work
from services.service.free_address import check_free
from services.service.guarded_server import GuardedServer
from services.service.interceptors import Checks, ErrorInterceptor, OnEnded, RequestParser, counted
from services.service.keepalive import PERMITTED_PING_MS
from services.service.limits import MAX_REQUEST_BYTES, MAX_STREAMS
from services.service.loading_health import LoadingHealth
from services.service.server_config import ServerConfig

logger = logging.getLogger(__name__)

_FLUSH_SECONDS = 0.25  # for the last messages of calls that have just ended
_STOP_SECONDS = 10.0  # for gRPC's core to end its calls and connections; the process ends without it, too
_MOST_PENDING = 1 << 16  # calls that have not been accepted yet
_OPTIONS = (
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    # We reject excess calls one by one, with a time to retry; gRPC's core would drop them without one.
    ("grpc.server.max_pending_requests", _MOST_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING),
    ("grpc.max_send_message_length", -1),  # a unary answer with all its records can be long
    # Clients may send keepalive pings: a stream is silent while its long prompt is computed.
    ("grpc.http2.min_ping_interval_without_data_ms", PERMITTED_PING_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    # The server pings every minute, so that a client that vanished does not hold its sequence.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class RpcServer:
    """Serves gRPC services; until `set_serving(True)` its health is NOT_SERVING."""

    def __init__(
        self,
        config: ServerConfig,
        callers: Callers,
        services: Seq[str],
        register: Callable[[aio.Server], None],
        progress: LoadingProgress,
        *,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        checks: Checks = MappingProxyType({}),
        on_ended: OnEnded | None = None,
        shares_port: bool = False,
    ) -> None:
        """`callers` identifies callers; `services` are the services' full names; `register` adds their handlers;
        health reports the `progress`. The `checks` are made before a request is read. Calls that have ended are counted
        in `calls` or, if it is given, by `on_ended`. With `shares_port` other servers may listen on the same port.
        """
        self._config, self._shares_port = config, shares_port
        access = [AccessInterceptor(callers)] if callers.need_tokens else []
        self._health = LoadingHealth(progress, ["", *services])
        own = (("grpc.max_receive_message_length", max_request_bytes), ("grpc.so_reuseport", int(shares_port)))
        options = (*_OPTIONS, *_age_options(config), *own)
        self.calls: Counter[tuple[str, str]] = Counter()
        errors = ErrorInterceptor(on_ended or counted(self.calls))
        self.held_bytes = request_bytes(config)
        parser = RequestParser(callers, self.held_bytes, checks)
        # By grpcio's type stubs it is no aio.Server.
        self._server = cast(aio.Server, GuardedServer([errors, *access, parser], options))
        register(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)  # type: ignore[no-untyped-call]
        names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)  # type: ignore[no-untyped-call]

    async def start(self) -> str:
        """Listen, and return the address; raises ConfigError if that is not possible."""
        address = self._bind()
        await self._server.start()
        return address

    async def set_serving(self, is_serving: bool) -> None:
        """Let health checks report this status; returns at once, which other servers in its place do not."""
        self.show(is_serving)

    def show(self, is_serving: bool) -> None:
        """Set the status that health checks report."""
        self._health.set(is_serving=is_serving)

    async def stop(self) -> None:
        """Stop listening, close every connection with GOAWAY, and end the calls that still run with UNAVAILABLE."""
        try:
            await asyncio.wait_for(self._server.stop(_FLUSH_SECONDS), _STOP_SECONDS)
        except TimeoutError:
            logger.warning("gRPC's server did not stop within %.0f s; its remaining calls are abandoned", _STOP_SECONDS)

    def _bind(self) -> str:
        config, listen = self._config, self._config.listen
        certificates = watch_certificates(config.tls_certificate, config.tls_key, config.tls_client_ca)
        if not self._shares_port:
            check_free("listen", listen)
        try:
            if certificates is None:
                remedy = "give --tls-cert and --tls-key"
                check_clear_text("listen", listen, remedy, is_allowed=config.insecure)
                port = self._server.add_insecure_port(listen)
            else:
                port = self._server.add_secure_port(listen, server_credentials(certificates))
        except RuntimeError as error:
            raise ConfigError(f"cannot listen on {listen}: {error}") from error
        return listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"


def request_bytes(config: ServerConfig) -> Admission:
    """Admits as many bytes of requests as the configuration allows."""
    return Admission(Work.REQUEST_BYTES, config.max_held_bytes, config.share(config.max_held_bytes))


def _age_options(config: ServerConfig) -> tuple[tuple[str, int], ...]:
    if config.max_connection_age is None:
        return ()
    return (
        ("grpc.max_connection_age_ms", round(1000 * config.max_connection_age)),
        ("grpc.max_connection_age_grace_ms", round(1000 * config.max_connection_age_grace)),
    )
