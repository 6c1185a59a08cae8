"""Traces: makes requests part of their callers' traces, and passes the trace context on to the targets."""

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
    """One request's part of a trace: the context for the target's spans, and its error, if it failed."""

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent
        self.error = ""


class Traces:
    """Passes the callers' trace contexts on; with a collector, each request is a span of its own in between."""

    def __init__(self, endpoint: str | None) -> None:
        """Raises ConfigError if there is an endpoint and OpenTelemetry is not installed."""
        self._tracing: Tracing | None = open_tracing(endpoint, _SERVICE)

    @contextmanager
    def of(self, http: Request) -> Iterator[Trace]:
        """Yield the request's part of its trace, which ends with the context."""
        traceparent = read_traceparent(http.headers.get(TRACEPARENT, ""))
        if self._tracing is None:
            yield Trace(traceparent)
            return
        attributes = {"http.request.method": http.method, "http.route": http.url.path}
        span = self._tracing.begin(f"{http.method} {http.url.path}", traceparent, attributes)
        trace = Trace(span.traceparent)
        try:
            yield trace
        finally:
            span.end({}, trace.error)

    def close(self) -> None:
        """Send the remaining spans, which may take a while."""
        if self._tracing is not None:
            self._tracing.close()
