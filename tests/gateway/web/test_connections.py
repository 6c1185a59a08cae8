"""Connections have bounds: those that ask nothing hold nobody up for long."""

import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tests.gateway.running_gateway import RunningGateway

HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def connect(gateway: RunningGateway) -> socket.socket:
    address = urlsplit(gateway.url)
    assert address.hostname is not None
    return socket.create_connection((address.hostname, address.port or 0), timeout=30)


def read_all(connection: socket.socket) -> bytes:
    read = b""
    with suppress(ConnectionResetError):  # as good an end
        while part := connection.recv(1 << 16):
            read += part
    return read


def test_one_beyond_the_bound_is_closed():
    with RunningGateway("127.0.0.1:1", max_connections=2) as gateway, connect(gateway) as one, connect(gateway) as two:
        for connection in (one, two):
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        with connect(gateway) as third:
            assert read_all(third) == b""


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_one_that_asks_nothing_is_closed(sent: bytes):
    with RunningGateway("127.0.0.1:1", body_seconds=0.1) as gateway, connect(gateway) as idle:
        idle.sendall(sent)
        assert read_all(idle) == b""


def test_one_whose_body_is_late_is_told_so_and_closed():
    with RunningGateway("127.0.0.1:1", body_seconds=0.5) as gateway, connect(gateway) as late:
        late.sendall(HEAD + b"content-length: 9\r\n\r\n{")
        head = read_all(late).lower()
    assert head.startswith(b"http/1.1 408")
    assert b"\r\nconnection: close\r\n" in head


def test_one_that_goes_on_and_on_behind_its_refusal_is_closed():
    with RunningGateway("127.0.0.1:1", body_seconds=0.5, max_body=10) as gateway, connect(gateway) as long:
        long.sendall(HEAD + b"content-length: 1000\r\n\r\n" + b"a" * 20)
        assert read_all(long).startswith(b"HTTP/1.1 413")
