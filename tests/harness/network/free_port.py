"""A port for a server that a test starts, ends, and starts again."""

import random
import socket

_PORTS = range(20_000, 32_000)  # below those that systems hand out


def free_port() -> int:
    """A port that no outgoing connection takes while its server is down, and that is drawn here once as long as this
    process lives, by whatever process.
    """
    while True:
        port = random.choice(_PORTS)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0outrider-test-port-{port}")  # the name is taken until the claim is closed
            with socket.socket() as attempt:
                attempt.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        claim.detach()  # so that only the end of the process closes it
        return port
