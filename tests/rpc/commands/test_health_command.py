"""`outrider health`, which container health checks run."""

import contextlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from services.cli import main
from tests.harness.network.certificate_authority import CertificateAuthority
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
    assert re.fullmatch(r"localhost:1 is not serving: nobody answers at \S+:1\n", capsys.readouterr().out)


def test_a_service_over_tls_is_told_from_an_absent_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = CertificateAuthority(tmp_path).issue()
    server = grpc.server(ThreadPoolExecutor(1))
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([pair]))
    server.start()
    assert main(["health", "--address", f"localhost:{port}"]) == 1
    stranger = CertificateAuthority(tmp_path, "stranger")
    assert main(["health", "--address", f"localhost:{port}", "--tls-ca", str(stranger.path)]) == 1
    server.stop(0).wait()
    clear, untrusted = capsys.readouterr().out.splitlines()
    assert "it may want TLS" in clear
    assert "is not signed by an authority that is trusted here" in untrusted


def test_a_missing_certificate_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--tls-ca", "nowhere.pem"]) == 1
    assert "nowhere.pem" in capsys.readouterr().err
