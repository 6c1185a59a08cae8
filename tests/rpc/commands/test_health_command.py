"""`outrider health`, which container health checks run."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from services.cli import main
from tests.harness.servers.server import RunningTarget


@contextlib.contextmanager
def server_that_says(status: int) -> Iterator[str]:
    """A server whose health is fixed; yields its address."""
    server = grpc.server(ThreadPoolExecutor(1))
    servicer = health.HealthServicer()
    servicer.set("", status)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{port}"
    finally:
        server.stop(0).wait()


def test_a_target_that_serves_is_healthy(target: RunningTarget, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--address", target.address]) == 0
    assert capsys.readouterr().out == f"{target.address} is serving\n"


def test_a_service_that_listens_but_does_not_serve_yet_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with server_that_says(health_pb2.HealthCheckResponse.NOT_SERVING) as address:
        assert main(["health", "--address", address]) == 1
        assert capsys.readouterr().out == f"{address} is not serving\n"


def test_an_absent_service_is_not_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--address", "localhost:1"]) == 1
    assert capsys.readouterr().out == "localhost:1 is not serving\n"


def test_a_missing_certificate_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--tls-ca", "nowhere.pem"]) == 1
    assert "nowhere.pem" in capsys.readouterr().err
