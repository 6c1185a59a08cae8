"""Connections have limits: idle and slow ones take no place for long."""

import json
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from services.gateway.web.bounded_protocol import _MOST_PENDING, _MOST_QUEUED
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway

ASKED = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n"
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


def test_a_connection_beyond_the_limit_is_closed():
    with RunningGateway("127.0.0.1:1", max_connections=2) as gateway, connect(gateway) as one, connect(gateway) as two:
        for connection in (one, two):
            connection.sendall(ASKED + b"\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        with connect(gateway) as third:
            assert read_all(third) == b""


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_a_connection_without_a_request_is_closed(sent: bytes):
    with RunningGateway("127.0.0.1:1", body_seconds=0.1) as gateway, connect(gateway) as idle:
        idle.sendall(sent)
        assert read_all(idle) == b""


def test_a_connection_whose_body_is_late_gets_408():
    with RunningGateway("127.0.0.1:1", body_seconds=0.5) as gateway, connect(gateway) as late:
        late.sendall(HEAD + b"content-length: 9\r\n\r\n{")
        head = read_all(late).lower()
    assert head.startswith(b"http/1.1 408")
    assert b"\r\nconnection: close\r\n" in head


def test_a_connection_that_sends_on_after_a_refusal_is_closed():
    with RunningGateway("127.0.0.1:1", body_seconds=0.5, max_body=10) as gateway, connect(gateway) as long:
        long.sendall(HEAD + b"content-length: 1000\r\n\r\n" + b"a" * 20)
        assert read_all(long).startswith(b"HTTP/1.1 413")


def test_a_head_that_is_too_long_is_refused():
    begin = HEAD + b"x: "
    with RunningGateway("127.0.0.1:1") as gateway, connect(gateway) as long:
        long.sendall(begin + b"a" * (_MOST_PENDING + 1 - len(begin)))
        assert read_all(long).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\n", b"400"),
        (b"HTTP/1.1\r\nhost: localhost\r\nHost: localhost\r\n", b"400"),
        (b"HTTP/1.0\r\n", b"200"),
    ],
)
def test_a_request_must_have_one_host_header(head: bytes, status: bytes):
    with RunningGateway("127.0.0.1:1") as gateway, connect(gateway) as asking:
        asking.sendall(b"GET /openapi.json " + head + b"connection: close\r\n\r\n")
        assert read_all(asking).startswith(b"HTTP/1.1 " + status)


def test_endless_trailers_end_the_connection():
    with RunningGateway("127.0.0.1:1") as gateway, connect(gateway) as long:
        with suppress(OSError):  # it may end before all is sent
            long.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: ")
            long.sendall(b"a" * (1 << 20))
        assert b"HTTP/1.1 200" not in read_all(long)


def test_pipelined_requests_are_answered_in_turn():
    with RunningGateway("127.0.0.1:1") as gateway, connect(gateway) as hasty:
        hasty.sendall(2 * (ASKED + b"\r\n") + ASKED + b"connection: close\r\n\r\n")
        assert read_all(hasty).count(b"HTTP/1.1 200") == 3


def test_too_many_pipelined_requests_are_refused():
    with RunningGateway("127.0.0.1:1") as gateway, connect(gateway) as hasty:
        hasty.sendall(2 * _MOST_QUEUED * (ASKED + b"\r\n"))
        assert b"HTTP/1.1 400" in read_all(hasty)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_old_client_gets_no_chunks(gateway: RunningGateway, is_streamed: bool):
    """HTTP/1.0 has none: the end of the connection is the end of an answer without a length."""
    asked = {"prompt": "def read(self, path):", "seed": 5, "max_tokens": 20, "stream": is_streamed}
    body = json.dumps(asked).encode()
    head = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + f"content-length: {len(body)}\r\n\r\n".encode()
    with connect(gateway) as old:
        old.sendall(head + body)
        told, _, answer = read_all(old).partition(b"\r\n\r\n")
    fields = told.lower().split(b"\r\n")
    assert fields[0].endswith(b" 200 ok")
    assert b"connection: close" in fields
    assert not any(field.startswith(b"transfer-encoding") for field in fields)
    expected = gateway.post("/v1/completions", {**asked, "stream": False}).json()["choices"][0]["text"]
    if is_streamed:
        assert answer.endswith(b"data: [DONE]\n\n")
        events = [event.data for event in read_events(answer.decode().split("\n"))]
        assert "".join(event["choices"][0]["text"] for event in events) == expected
    else:
        assert json.loads(answer)["choices"][0]["text"] == expected
