"""MetricsServer: serves metrics over HTTP, for Prometheus."""

import socket
import threading
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from services.engine.config import ConfigError, split_address

_MOST_SCRAPES = 8  # at once; further connections are closed
_SECONDS = 10.0  # after which a silent connection is closed


class MetricsServer:
    """Answers on threads of its own, which call the collectors; these read counts that other threads update."""

    def __init__(self, listen: str, registry: CollectorRegistry) -> None:
        """Listen on HOST:PORT; raises ConfigError if that is not possible."""
        host, port = split_address("metrics_listen", listen)
        try:
            self._server = _new_server(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {listen} for metrics: {error}") from error
        self._server.set_app(make_wsgi_app(registry))
        self.address = f"{listen.rpartition(':')[0]}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and wait for the listening thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    timeout = _SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: there is a scrape every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._slots = threading.BoundedSemaphore(_MOST_SCRAPES)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without the base class's look-up of our host name in DNS."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: object, client_address: object) -> None:
        """Answer on a thread, or close the connection if all slots are in use."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer, and release the slot."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of a connection: the scraper has closed it."""


def _new_server(host: str, port: int) -> _Server:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return _Server((str(address[0]), int(address[1])), family)
