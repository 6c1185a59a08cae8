"""call_span: a call as a span of the caller's trace, which goes on in the server."""

from collections.abc import Iterator
from contextlib import contextmanager

from outrider.servers.channel import Metadata

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    IS_TRACED = False
else:
    IS_TRACED = True

_FIELD = "traceparent"
_SERVICE = "outrider.v1.GenerationService"


@contextmanager
def call_span(method: str, traceparent: str | None = None) -> Iterator[Metadata]:
    """What to send with a call, a part of that trace or of the program's own; the span lasts as long as the context.

    Without OpenTelemetry, and without a trace that the program records, the trace itself is sent, if there is one.
    """
    if not IS_TRACED:
        yield () if traceparent is None else ((_FIELD, traceparent),)
        return
    parent = None if traceparent is None else TraceContextTextMapPropagator().extract({_FIELD: traceparent})
    attributes = {"rpc.system": "grpc", "rpc.service": _SERVICE, "rpc.method": method}
    tracer = trace.get_tracer("outrider")
    span = tracer.start_span(f"{_SERVICE}/{method}", parent, kind=trace.SpanKind.CLIENT, attributes=attributes)
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(span))
    try:
        yield tuple(carrier.items())
    except Exception as error:
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(trace.Status(trace.StatusCode.ERROR))
        raise
    finally:
        span.end()
