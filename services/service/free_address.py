"""Free addresses: finds out that one cannot be used before gRPC tries it, which would write lines of its own."""

import errno
import socket
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

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


class ReservedAddress:
    """Keeps HOST:PORT, with port 0 a free one, for the processes of one service, until the context ends.

    The sockets are bound but do not listen: they receive no connection, and no other server gets the port.
    """

    def __init__(self, name: str, address: str) -> None:
        """Raises ConfigError if the setting `name` is an address that is in use or cannot be used.

        It waits a moment for an address that is in use: processes of a service that was killed may be about to end.
        """
        last_try = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                check_free(name, address)
                break
            except ConfigError:
                if time.monotonic() > last_try:
                    raise
                time.sleep(_POLL_SECONDS)
        host, port = split_address(name, address)
        self._held = ExitStack()
        try:
            for family, *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                held = self._held.enter_context(socket.socket(family))
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                held.bind((place[0], port))
                port = held.getsockname()[1]
        except OSError as error:
            self._held.close()
            raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
        self.address = f"{address.rpartition(':')[0]}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()
