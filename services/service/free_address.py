"""check_free: finds out that an address cannot be used before gRPC tries it, which would write lines of its own."""

import errno
import socket

from services.engine.config import ConfigError, split_address


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
