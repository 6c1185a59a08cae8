"""outrider health: reports whether a service is ready, also as an exit code for container health checks."""

import argparse
import sys
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.errors import as_error
from services.cli.connection import add_tls_options, open_channel, read_credentials
from services.cli.terminal import Terminal
from services.engine.config import ConfigError
from services.service.loading_health import DETAIL
from services.service.printable import printable

_TIMEOUT_SECONDS = 3.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("--address", default="localhost:50051", metavar="HOST:PORT", help="the service (%(default)s)")
    add_tls_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check once, and print the answer; returns 0 if the service serves requests, else 1."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    try:
        with open_channel(arguments.address, read_credentials(arguments).channel) as channel:
            answer = ask(channel)
    except ConfigError as error:
        err.error(f"outrider health: {error}")
        return 1
    serves = answer.status == health_pb2.HealthCheckResponse.SERVING
    detail = f": {answer.detail}" if answer.detail else ""
    out.note(f"{arguments.address} {'is serving' if serves else 'is not serving'}{detail}")
    return 0 if serves else 1


@dataclass(frozen=True, slots=True)
class Health:
    """The HealthCheckResponse.ServingStatus, None without an answer, and the progress of a service that is loading, or
    why there is no answer.
    """

    status: int | None
    detail: str = ""


def ask(channel: grpc.Channel) -> Health:
    """Return the health of the service at the other end of the channel."""
    health = health_pb2_grpc.HealthStub(channel)  # type: ignore[no-untyped-call]
    try:
        answer, call = health.Check.with_call(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_SECONDS)
    except grpc.RpcError as error:
        return Health(None, str(as_error(error)))
    details = [value for key, value in call.trailing_metadata() or () if key == DETAIL]
    return Health(int(answer.status), printable("".join(details)))
