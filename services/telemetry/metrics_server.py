"""MetricsServer: serves metrics over HTTP to whoever scrapes them."""

import socket
import threading
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from services.engine.config import ConfigError, split_address

_MOST_SCRAPES = 8  # at once; others are hung up on
_SECONDS = 10.0  # that a scraper may be silent


class MetricsServer:
    """Threads of its own answer; collectors are called on them, and read what other threads count."""

    def __init__(self, listen: str, registry: CollectorRegistry) -> None:
        """Listen on HOST:PORT; raises ConfigError where that is not possible."""
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
        """Stop listening, and wait for the thread that did."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    timeout = _SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: scrapes come every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._places = threading.BoundedSemaphore(_MOST_SCRAPES)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server who we are."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: object, client_address: object) -> None:
        """Answer on a thread, unless there are as many as may be."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that hangs up is its own affair."""


def _new_server(host: str, port: int) -> _Server:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return _Server((str(address[0]), int(address[1])), family)
