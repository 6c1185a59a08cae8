"""Tracing: spans and histograms for OpenTelemetry; this is the only module that imports it."""

import time
from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.telemetry.trace_context import TRACEPARENT

Attribute = str | int | float | tuple[str, ...]
_PROPAGATOR = TraceContextTextMapPropagator()
_SCOPE = "outrider"
_DURATIONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


class TracedSpan:
    """A span for some work of a request, from its construction to `end`."""

    def __init__(self, tracing: "Tracing", span: Span) -> None:
        self._tracing, self._span = tracing, span
        self._epoch = time.time() - time.monotonic()  # the time of day at the monotonic clock's zero

    @property
    def traceparent(self) -> str:
        """The trace context to send with a part of the work that is done elsewhere."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(self._span))
        return carrier.get(TRACEPARENT, "")

    def add_part(self, name: str, begin: float, end: float) -> None:
        """Add a child span from `begin` to `end`, times of the monotonic clock."""
        part = self._tracing.tracer.start_span(
            name, set_span_in_context(self._span), start_time=self._nanoseconds(begin)
        )
        part.end(self._nanoseconds(end))

    def end(self, attributes: Mapping[str, Attribute], error: str = "") -> None:
        """End the span, as failed if there is an error type."""
        self._span.set_attributes({**attributes})
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def _nanoseconds(self, moment: float) -> int:
        return int((self._epoch + moment) * 1e9)


class Tracing:
    """Sends spans and histograms to a collector, on threads of its own; drops what the collector does not accept."""

    def __init__(self, endpoint: str, service: str) -> None:
        """`endpoint` is http://HOST:PORT, or https, of a collector for OTLP over gRPC."""
        resource = Resource.create({"service.name": service, "service.version": version("outrider")})
        is_clear = endpoint.startswith("http://")
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, insecure=is_clear)))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint, insecure=is_clear))
        self._meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self.tracer = self._tracers.get_tracer(_SCOPE)
        self.duration = self._histogram("request.duration", _DURATIONS)
        self.first_token = self._histogram("time_to_first_token", _FIRST_TOKEN)
        self.per_token = self._histogram("time_per_output_token", _PER_TOKEN)

    def begin(self, name: str, traceparent: str, attributes: Mapping[str, Attribute]) -> TracedSpan:
        """Begin a span for a request of this trace, or of a new one."""
        parent = _PROPAGATOR.extract({TRACEPARENT: traceparent} if traceparent else {})
        span = self.tracer.start_span(name, parent, kind=SpanKind.SERVER, attributes={**attributes})
        return TracedSpan(self, span)

    def close(self) -> None:
        """Send the remaining spans and histograms, and wait as long as the collector answers."""
        self._tracers.shutdown()
        self._meters.shutdown()

    def _histogram(self, name: str, bounds: tuple[float, ...]) -> Histogram:
        meter = self._meters.get_meter(_SCOPE)
        return meter.create_histogram(f"gen_ai.server.{name}", "s", explicit_bucket_boundaries_advisory=bounds)
