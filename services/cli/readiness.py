"""Readiness: waits while servers load their model, which takes minutes where that is large."""

import time
from collections.abc import Sequence as Seq
from typing import NamedTuple

import grpc
from grpc_health.v1 import health_pb2

from outrider import Unavailable
from services.cli.connection import open_channel
from services.cli.health import ask
from services.cli.terminal import Terminal

_POLL_SECONDS = 0.5
_NOTE_SECONDS = 15.0  # between two lines that say that we still wait
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Readiness:
    """Asks the health of some servers, all of which hold the same model; `seconds` is for all waiting together."""

    def __init__(
        self,
        addresses: Seq[str],
        credentials: grpc.ChannelCredentials | None,
        terminal: Terminal,
        *,
        seconds: float,
    ) -> None:
        """`terminal` is where it says that it waits. Raises ValueError for negative seconds."""
        if not seconds >= 0:
            raise ValueError(f"--wait must be at least 0 seconds, not {seconds:g}")
        self._addresses = addresses
        self._credentials = credentials
        self._terminal = terminal
        self._seconds = seconds

    def wait(self) -> bool:
        """Return once a server serves, or none is loading any more; False where none was.

        Raises Unavailable when the seconds are over.
        """
        began = said = time.monotonic()
        if (loading := self._loading()) is None:
            return False
        self._terminal.note(
            f"{loading.address} does not serve yet: its model is loading; waiting for up to {self._seconds:g} s"
        )
        while loading is not None:
            now = time.monotonic()
            if now - began >= self._seconds:
                raise Unavailable(f"{loading.address} does not serve yet, after waiting for {now - began:.1f} s")
            if now - said >= _NOTE_SECONDS:
                self._terminal.note(f"{loading.address} does not serve yet, after {now - began:.0f} s{loading.detail}")
                said = now
            time.sleep(min(_POLL_SECONDS, self._seconds))
            loading = self._loading()
        self._seconds -= time.monotonic() - began
        return True

    def _loading(self) -> "_Loading | None":
        """A server that listens and does not serve yet, where no other one serves."""
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
    """A server that is loading its model, and what it says of that."""

    address: str
    detail: str
