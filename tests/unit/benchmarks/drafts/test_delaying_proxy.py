"""delaying_proxy: what goes in comes out at the other end, whole, in order, and no sooner than it may."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from benchmarks.drafts.delaying_proxy import DelayingProxy

PIECES = [bytes([number]) * size for number, size in enumerate([1, 100, 70_000, 3])]


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a server that says what it hears, to one caller, until that has said all."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("round_trip", [0.0, 0.05])
def test_bytes_come_back_whole_and_not_before_a_round_trip(echo: str, round_trip: float) -> None:
    expected = b"".join(PIECES)
    with DelayingProxy(echo) as proxy:
        proxy.round_trip = round_trip
        host, _, port = proxy.address.rpartition(":")
        with socket.create_connection((host, int(port))) as caller:
            began = time.monotonic()
            for piece in PIECES:
                caller.sendall(piece)
            heard = caller.recv(1)
            assert time.monotonic() - began >= round_trip
            while len(heard) < len(expected):
                heard += caller.recv(65536)
    assert heard == expected


def test_without_a_server_the_proxy_closes_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        target = f"127.0.0.1:{nobody.getsockname()[1]}"
    with DelayingProxy(target) as proxy:
        host, _, port = proxy.address.rpartition(":")
        with socket.create_connection((host, int(port))) as caller:
            assert caller.recv(1) == b""
