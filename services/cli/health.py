"""outrider health: whether a service is ready, as an exit code; container health checks run it."""

import argparse
import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.cli.terminal import Terminal

_TIMEOUT_SECONDS = 3.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("--address", default="localhost:50051", metavar="HOST:PORT", help="the service (%(default)s)")
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="call over TLS, trusting these certificates (PEM)")


def run(arguments: argparse.Namespace) -> int:
    """Ask once, and say the answer; returns 0 if the service serves requests, else 1."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    try:
        with open_channel(arguments.address, read_credentials(arguments.tls_ca)) as channel:
            serves = is_serving(channel)
    except OSError as error:
        err.error(f"outrider health: {error}")
        return 1
    out.note(f"{arguments.address} {'is serving' if serves else 'is not serving'}")
    return 0 if serves else 1


def is_serving(channel: grpc.Channel) -> bool:
    """Whether the service at the other end has loaded its model and takes requests; False where nobody answers."""
    return status_of(channel) == health_pb2.HealthCheckResponse.SERVING


def status_of(channel: grpc.Channel) -> int | None:
    """The HealthCheckResponse.ServingStatus of the service at the other end; None where nobody answers."""
    health = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
    try:
        answer = health.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_SECONDS)
    except grpc.RpcError:
        return None
    return int(answer.status)


def read_credentials(tls_ca: Path | None) -> grpc.ChannelCredentials | None:
    """Credentials for TLS that trust the certificates of a file, or None for calls in the clear; raises OSError."""
    return None if tls_ca is None else grpc.ssl_channel_credentials(tls_ca.read_bytes())


def open_channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    """A channel to a service."""
    return grpc.insecure_channel(address) if credentials is None else grpc.secure_channel(address, credentials)
