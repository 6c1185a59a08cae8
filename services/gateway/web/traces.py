"""Traces: requests as parts of their callers' traces, which go on in the targets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.requests import Request

from services.telemetry.open_tracing import open_tracing
from services.telemetry.trace_context import TRACEPARENT, read_traceparent

if TYPE_CHECKING:
    from services.telemetry.tracing import Tracing

_SERVICE = "outrider-gateway"


class Trace:
    """One request's part: what its own parts are to be told, and how it failed, if it has."""

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent
        self.error = ""


class Traces:
    """Hands on what the callers say; where there is a collector, each request is a span of its own in between."""

    def __init__(self, endpoint: str | None) -> None:
        """Raises ConfigError where OpenTelemetry is needed and not installed."""
        self._tracing: Tracing | None = open_tracing(endpoint, _SERVICE)

    @contextmanager
    def of(self, http: Request) -> Iterator[Trace]:
        """The request's part, which ends with the context."""
        told = read_traceparent(http.headers.get(TRACEPARENT, ""))
        if self._tracing is None:
            yield Trace(told)
            return
        attributes = {"http.request.method": http.method, "http.route": http.url.path}
        span = self._tracing.begin(f"{http.method} {http.url.path}", told, attributes)
        trace = Trace(span.traceparent)
        try:
            yield trace
        finally:
            span.end({}, trace.error)

    def close(self) -> None:
        """Send the rest, which may take a while."""
        if self._tracing is not None:
            self._tracing.close()
