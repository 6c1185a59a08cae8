"""Traces: one leads from the caller through the target to the draft, without any generated text."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from outrider import AsyncClient, Client, InvalidArgument
from outrider.tracing import call_span
from tests.e2e.harness.told_pair import ToldPair
from tests.harness.servers.server import wait_until

SECRET = "def the_prompt_is_secret(words):\n    return"
SEED = 918273645546372
PARTS = {"queue", "prefill", "decode"}


@pytest.fixture
def own_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans of the test's own process, which is the caller's."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(call_span.trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def received(told: ToldPair, trace_id: int, *names: str) -> dict[str, tuple[str, Span]]:
    """The spans of one trace by their names, once these are among them: each with the service that sent it."""

    def spans() -> dict[str, tuple[str, Span]]:
        sent = [*told.receiver.spans]
        return {span.name: (service, span) for service, span in sent if int.from_bytes(span.trace_id) == trace_id}

    wait_until(lambda: {*names} <= spans().keys())
    return spans()


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def test_one_trace_leads_from_the_caller_to_the_draft(told: ToldPair, own_spans: InMemorySpanExporter) -> None:
    num_runs = told.num_runs
    with told.streaming(SECRET, max_tokens=400, seed=SEED) as read_on:
        wait_until(lambda: told.num_runs > num_runs)  # so that the draft has a part in it
        result = read_on()
    caller = only(own_spans)
    assert caller.context is not None
    spans = received(told, caller.context.trace_id, "text_completion target", "draft", *PARTS)
    services = {name: service for name, (service, _) in spans.items()}
    assert services == {
        "text_completion target": "outrider-target",
        "draft": "outrider-draft",
        **dict.fromkeys(PARTS, "outrider-target"),
    }
    target = spans["text_completion target"][1]
    assert int.from_bytes(target.parent_span_id) == caller.context.span_id
    assert all(spans[name][1].parent_span_id == target.span_id for name in ("draft", *PARTS))
    said = attributes(target)
    assert said["gen_ai.operation.name"] == "text_completion"
    assert said["gen_ai.provider.name"] == "outrider"
    assert said["gen_ai.request.model"] == said["gen_ai.response.model"] == result.started.model
    assert said["gen_ai.response.id"] == result.started.request_id
    assert said["gen_ai.usage.input_tokens"] == result.usage.prompt_tokens
    assert said["gen_ai.usage.output_tokens"] == result.usage.completion_tokens == 400
    assert said["outrider.predicted_tokens"] == result.speculation.predicted > 0
    assert attributes(spans["draft"][1])["outrider.predicted_tokens"] > 0
    told_of = b"".join(span.SerializeToString() for _, span in spans.values()) + caller.to_json().encode()
    assert b"secret" not in told_of
    assert result.text.encode() not in told_of
    assert str(SEED).encode() not in told_of


async def test_asyncio_has_the_same_spans(told: ToldPair, own_spans: InMemorySpanExporter) -> None:
    async with AsyncClient(told.address) as client:
        await client.generate(SECRET, max_tokens=4, ignore_eos=True)
    caller = only(own_spans)
    assert caller.context is not None
    received(told, caller.context.trace_id, "text_completion target")


def test_a_failed_call_has_an_error_in_its_spans(told: ToldPair, own_spans: InMemorySpanExporter) -> None:
    with Client(told.address) as client, pytest.raises(InvalidArgument):
        client.generate(SECRET, temperature=-1.0)
    caller = only(own_spans)
    assert caller.context is not None
    assert caller.attributes is not None
    assert caller.attributes["error.type"] == "InvalidArgument"
    _, target = received(told, caller.context.trace_id, "text_completion target")["text_completion target"]
    assert attributes(target)["error.type"] == "InvalidRequestError"
    assert target.status.code == target.status.STATUS_CODE_ERROR


def test_a_call_without_a_trace_begins_one(told: ToldPair) -> None:
    assert not trace.get_current_span().is_recording()
    with Client(told.address) as client:
        request_id = client.generate(SECRET, max_tokens=4, ignore_eos=True).started.request_id

    def roots() -> list[Span]:
        spans = [span for _, span in [*told.receiver.spans] if attributes(span).get("gen_ai.response.id") == request_id]
        return [span for span in spans if not span.parent_span_id]

    wait_until(lambda: len(roots()) == 1)


def test_the_histograms_of_the_conventions_are_sent(told: ToldPair) -> None:
    with Client(told.address) as client:
        client.generate(SECRET, max_tokens=4, ignore_eos=True)
    names = {f"gen_ai.server.{name}" for name in ("request.duration", "time_to_first_token", "time_per_output_token")}
    wait_until(lambda: names <= told.receiver.metrics.keys())
    for name in names:
        metric = told.receiver.metrics[name]
        assert metric.unit == "s"
        point = metric.histogram.data_points[0]
        assert point.count > 0
        labels = {each.key for each in point.attributes}
        assert {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"} <= labels
