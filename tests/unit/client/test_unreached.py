"""Why a server was not reached is said in plain words."""

import pytest

from outrider.servers.unreached import reason_of

LAST = "failed to connect to all addresses; last error: "


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            f"{LAST}UNKNOWN: ipv6:%5B::1%5D:50051: Failed to connect to remote host: Connection refused",
            "nobody answers at [::1]:50051",
        ),
        (
            f"{LAST}FAILED_PRECONDITION: unix:/a: connect failed: addr: unix:/a error: No such file or directory",
            "nobody answers at unix:/a",
        ),
        (
            f"{LAST}INTERNAL: ipv4:127.0.0.1:80: Failed parsing HTTP/2 (Trying to connect an http1.x server)",
            "127.0.0.1:80 speaks HTTP, as a gateway does, and not gRPC: the target has a port of its own",
        ),
        (f"{LAST}UNKNOWN: ipv4:127.0.0.1:80: tcp handshaker shutdown", "nobody answers at 127.0.0.1:80"),
        (
            f"{LAST}UNKNOWN: ipv4:127.0.0.1:80: connection attempt timed out before receiving SETTINGS frame",
            "127.0.0.1:80 takes connections but says nothing in time: it is overloaded, or no target",
        ),
        (f"{LAST}UNKNOWN: ipv4:127.0.0.1:80: something new", f"{LAST}UNKNOWN: ipv4:127.0.0.1:80: something new"),
        ("errors resolving a:1: [no host]", "errors resolving a:1: [no host]"),
    ],
)
def test_a_message_of_grpc_is_explained(message: str, told: str) -> None:
    assert reason_of(message) == told
