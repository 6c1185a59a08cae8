"""check_free: finds out that an address cannot be used before gRPC tries it, which would write lines of its own."""

import errno
import socket

from services.engine.config import ConfigError, split_address


def check_free(listen: str) -> None:
    """Raise ConfigError if HOST:PORT is in use, or the host is unknown; an address unix:PATH is not tried.

    Whatever else is wrong with an address, gRPC finds out: of a host with several it may still use some.
    """
    if listen.startswith("unix:"):
        return
    host, port = split_address("listen", listen)
    try:
        for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            socket.create_server(address[:2], family=family).close()
    except socket.gaierror as error:
        raise ConfigError(f"cannot listen on {listen}: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"cannot listen on {listen}: the address is in use") from error
