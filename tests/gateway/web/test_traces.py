"""A caller's trace continues in the target, through a span of the gateway's where there is a collector."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from outrider.tracing import call_span
from tests.e2e.harness.otlp_receiver import OtlpReceiver
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Event, Fault, Request, ScriptedServer, ScriptedServicer

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
BODY = {"prompt": "a secret", "max_tokens": 3, "seed": 918273645}


class TracedServicer(ScriptedServicer):
    """Remembers the trace contexts of its calls."""

    told: list[str] = []  # noqa: RUF012

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:  # noqa: N802
        """Note the trace context of the call."""
        self.told.append(dict(context.invocation_metadata()).get("traceparent", ""))  # type: ignore[arg-type]
        return super().StreamGenerate(request, context)


def told_by(gateway: RunningGateway, traceparent: str, body: Any = BODY) -> str:
    TracedServicer.told.clear()
    gateway.post("/v1/completions", body, headers={"traceparent": traceparent} if traceparent else {})
    return TracedServicer.told[0]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A target that remembers."""
    with ScriptedServer(servicer_type=TracedServicer) as running:
        yield running


@pytest.mark.parametrize("is_traced", [True, False])  # whether OpenTelemetry is installed
def test_a_trace_is_handed_on(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, is_traced: bool):
    monkeypatch.setattr(call_span, "IS_TRACED", is_traced)
    with RunningGateway(server.address) as gateway:
        assert told_by(gateway, CALLER) == CALLER
        for none in ("", "00-x", CALLER + "\u00e9"):
            assert told_by(gateway, none.encode("latin-1")) == ""  # type: ignore[arg-type]


def test_a_collector_gets_the_gateways_span_as_parent(server: ScriptedServer):
    receiver = OtlpReceiver()
    try:
        with RunningGateway(server.address, otlp_endpoint=receiver.endpoint) as gateway:
            told = told_by(gateway, CALLER, {**BODY, "stream": True})
        (service, span), *others = receiver.spans
    finally:
        receiver.close()
    assert not others
    assert (service, span.name) == ("outrider-gateway", "POST /v1/completions")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, CALLER.split("-")[2])
    assert told == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert not any(secret in span.SerializeToString() for secret in (b"secret", b"918273645"))


def test_a_failed_request_has_a_failed_span():
    receiver = OtlpReceiver()
    fault = Fault(1, grpc.StatusCode.INTERNAL)
    try:
        with (
            ScriptedServer(fault) as broken,
            RunningGateway(broken.address, otlp_endpoint=receiver.endpoint, max_retries=0) as gateway,
        ):
            gateway.post("/v1/completions", {**BODY, "stream": True})
        ((_, span),) = receiver.spans
    finally:
        receiver.close()
    assert {one.key: one.value.string_value for one in span.attributes}["error.type"] == "broken"
