"""Free addresses: finds out that one cannot be used before gRPC tries it, which would write lines of its own."""

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from services.engine.config import ConfigError, split_address

_PATIENCE_SECONDS, _POLL_SECONDS = 1.0, 0.02


def check_free(name: str, address: str) -> None:
    """Raise ConfigError if the setting `name` is a HOST:PORT that is in use or whose host is unknown.

    An address unix:PATH is not tried. Other problems are left to gRPC: it can use some addresses of a host.
    """
    if address.startswith("unix:"):
        return
    host, port = split_address(name, address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
    for family, *_, place in found:
        try:
            socket.create_server(place[:2], family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(f"cannot listen on {address}: the address is in use") from error


@contextmanager
def reserved_address(name: str, address: str) -> Iterator[str]:
    """Keep HOST:PORT, with port 0 a free one, for the processes of one service; yields the address with its port.

    The sockets are bound but do not listen: they receive no connection, and no other server gets the port. Raises
    ConfigError if the setting `name` is an address that cannot be used; it waits a moment for one that is in use, since
    processes of a service that was killed may be about to end.
    """
    _await_free(name, address)
    host, port = split_address(name, address)
    with ExitStack() as held:
        try:
            for family, *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                port = _bind(held.enter_context(socket.socket(family)), str(place[0]), port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
        yield f"{address.rpartition(':')[0]}:{port}"


def _await_free(name: str, address: str) -> None:
    last_try = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return check_free(name, address)
        except ConfigError:
            if time.monotonic() > last_try:
                raise
            time.sleep(_POLL_SECONDS)


def _bind(held: socket.socket, host: str, port: int) -> int:
    """Bind a socket so that only sockets that share ports can listen there; returns the port."""
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections of the port may still be closing
    held.bind((host, port))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return int(held.getsockname()[1])
