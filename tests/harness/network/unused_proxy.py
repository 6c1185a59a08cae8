"""A proxy that the environment names, and that no call may use."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def unused_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It listens, and in the end no connection has come."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for name in ("grpc_proxy", "https_proxy", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{listening.getsockname()[1]}")
        for name in ("no_grpc_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
