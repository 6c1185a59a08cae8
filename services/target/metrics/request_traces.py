"""RequestTraces: a span for each request, by OpenTelemetry's conventions for generative AI."""

import time
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Self

from services.engine.request import Request
from services.target.sequence.generation import Generation

if TYPE_CHECKING:
    from services.telemetry.tracing import Attribute, TracedSpan, Tracing

_PROVIDER = "outrider"


class RequestTraces:
    """Begins the spans of requests, which never have prompts, texts or seeds."""

    def __init__(self, tracing: "Tracing") -> None:
        self._tracing = tracing

    def begin(self, traceparent: str, *, operation: str, model: str) -> "RequestTrace":
        """Begin the span of a request; `traceparent` is empty if the caller sent no trace context."""
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": model,
        }
        span = self._tracing.begin(f"{operation} {model}", traceparent, attributes)
        return RequestTrace(self._tracing, span, {**attributes, "gen_ai.response.model": model})


class RequestTrace:
    """The span of one request, a context; an exception that ends it is recorded by its type."""

    def __init__(self, tracing: "Tracing", span: "TracedSpan", attributes: "dict[str, Attribute]") -> None:
        self._tracing, self._span, self._attributes = tracing, span, attributes
        self._began = time.monotonic()
        self._request: Request | None = None
        self._generations: Seq[Generation] = ()

    @property
    def traceparent(self) -> str:
        """The parent of the draft's spans for this request."""
        return self._span.traceparent

    def follow(self, request: Request, generations: Seq[Generation]) -> None:
        """Set the request and its sequences, one for each sample, once they are known."""
        self._request, self._generations = request, generations

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        failure = "" if kind is None else kind.__name__
        for generation in self._generations:
            self._add_parts(generation)
        self._record(failure)
        described = {} if self._request is None else _describe(self._request, self._generations)
        self._span.end({**self._attributes, **described}, failure)

    def _add_parts(self, generation: Generation) -> None:
        """Add the times of a sequence's queueing, prefill and decoding."""
        timings, now = generation.timings, time.monotonic()
        moments = [timings.arrived, timings.scheduled, timings.prefilled, timings.finished or now]
        for name, begin, end in zip(("queue", "prefill", "decode"), moments, moments[1:], strict=False):
            if begin:
                self._span.add_part(name, begin, end or timings.finished or now)

    def _record(self, failure: str) -> None:
        attributes = {**self._attributes, **({"error.type": failure} if failure else {})}
        self._tracing.duration.record(time.monotonic() - self._began, attributes)
        for generation in self._generations:
            timings, count = generation.timings, generation.num_generated
            if timings.prefilled:
                self._tracing.first_token.record(timings.prefilled - timings.arrived, attributes)
            if timings.finished and count > 1:
                self._tracing.per_token.record((timings.finished - timings.prefilled) / (count - 1), attributes)


def _describe(request: Request, generations: Seq[Generation]) -> "dict[str, Attribute]":
    reasons = tuple(end.name.lower() for generation in generations if (end := generation.end))
    speculation = [generation.speculation for generation in generations]
    with_own_prompts = [generation for generation in generations if generation.has_own_prompt]
    return {
        "gen_ai.response.id": request.request_id,
        "gen_ai.request.max_tokens": request.stops.max_tokens,
        "gen_ai.request.temperature": request.sampling.temperature,
        "gen_ai.request.choice.count": request.num_samples,
        "gen_ai.usage.input_tokens": sum(generation.num_prompt for generation in with_own_prompts),
        "gen_ai.usage.output_tokens": sum(generation.num_generated for generation in generations),
        "gen_ai.response.finish_reasons": reasons,
        "outrider.cached_tokens": sum(generation.num_cached for generation in with_own_prompts),
        "outrider.predicted_tokens": sum(sum(stats.offered) for stats in speculation),
        "outrider.accepted_tokens": sum(sum(stats.accepted) for stats in speculation),
    }
