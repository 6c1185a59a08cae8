"""Readiness: waits for servers to load their model before calling them; a large model takes minutes."""

import argparse
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import grpc
from grpc_health.v1 import health_pb2

from outrider import Client, Unavailable
from services.cli.connection import add_tls_options, add_token_option, open_channel, read_credentials
from services.cli.health import ask
from services.cli.terminal import Terminal

Answer = TypeVar("Answer")
_ADDRESS = "localhost:50051"
_RETRIES = 5  # for an address that does not answer; about three seconds
_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.5
_NOTE_SECONDS = 15.0  # between two lines of progress in a log
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the servers' addresses and credentials, and for how long to wait while they load."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--address", action="append", metavar="HOST:PORT", help=f"a server; several may be given ({_ADDRESS})"
    )
    add_tls_options(group)
    add_token_option(group)
    waiting = group.add_mutually_exclusive_group()
    waiting.add_argument(
        "--wait",
        type=float,
        default=_WAIT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for a server that is loading its model (%(default)g)",
    )
    waiting.add_argument(
        "--no-wait", dest="wait", action="store_const", const=0.0, help="fail if the server is loading"
    )


@contextmanager
def ready_client(arguments: argparse.Namespace, terminal: Terminal) -> Iterator[tuple[Client, "Readiness"]]:
    """Wait until one of the servers that the options name serves or none is loading; yields a client of them.

    It also yields their readiness. Waiting is reported to `terminal`. Raises ValueError for bad options, and
    Unavailable after the seconds of the options.
    """
    credentials = read_credentials(arguments)
    addresses = arguments.address or [_ADDRESS]
    readiness = Readiness(addresses, credentials.channel, terminal, seconds=arguments.wait)
    readiness.wait()
    with Client(*addresses, credentials=credentials.channel, token=credentials.token, max_retries=_RETRIES) as client:
        yield client, readiness


class Readiness:
    """Polls the health of servers that hold the same model; `seconds` limits the total time of waiting."""

    def __init__(
        self,
        addresses: Seq[str],
        credentials: grpc.ChannelCredentials | None,
        terminal: Terminal,
        *,
        seconds: float,
    ) -> None:
        """Waiting is reported to `terminal`. Raises ValueError for negative seconds."""
        if not seconds >= 0:
            raise ValueError(f"--wait must be at least 0 seconds, not {seconds:g}")
        self._addresses = addresses
        self._credentials = credentials
        self._terminal = terminal
        self._seconds = seconds

    def wait(self) -> bool:
        """Wait until a server serves or none is loading; returns False if none was loading.

        Raises Unavailable after the remaining seconds.
        """
        began = time.monotonic()
        if (loading := self._loading()) is None:
            return False
        if self._seconds > 0:
            self._terminal.note(f"{loading}: its model is loading; waiting for up to {self._seconds:g} s")
        try:
            self._wait_for(loading, began)
        finally:
            self._terminal.progress("")
        self._seconds -= time.monotonic() - began
        return True

    def when_ready(self, call: Callable[[], Answer]) -> Answer:
        """Return the result of `call`; if servers are unavailable because one is loading, wait and call again.

        Raises the errors of the call, and Unavailable after the remaining seconds.
        """
        while True:
            try:
                return call()
            except Unavailable as error:
                # Loading takes longer than a client's retries. After part of a text was printed, it is not restarted.
                if (error.received is not None and error.received.token_ids) or not self.wait():
                    raise

    def _wait_for(self, loading: "_Loading | None", began: float) -> None:
        said = began
        while loading is not None:
            now = time.monotonic()
            if now - began >= self._seconds:
                waited = f", after waiting for {now - began:.1f} s" if self._seconds > 0 else ""
                raise Unavailable(f"{loading}{waited}{loading.detail}")
            line = f"{loading}, after {now - began:.0f} s{loading.detail}"
            self._terminal.progress(line)
            if now - said >= _NOTE_SECONDS and not self._terminal.is_watched:
                self._terminal.note(line)
                said = now
            time.sleep(min(_POLL_SECONDS, self._seconds))
            loading = self._loading()

    def _loading(self) -> "_Loading | None":
        """Return the first server that listens and does not serve yet; None if any server serves or none listens."""
        first = None
        for address in self._addresses:
            with open_channel(address, self._credentials) as channel:
                health = ask(channel)
            if health.status == _SERVING:
                return None
            if health.status == _NOT_SERVING and first is None:
                first = _Loading(address, f": {health.detail}" if health.detail else "")
        return first


class _Loading(NamedTuple):
    """A server that is loading its model, and the detail that it reports."""

    address: str
    detail: str

    def __str__(self) -> str:
        return f"{self.address} does not serve yet"
