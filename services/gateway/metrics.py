"""GatewayMetrics: the gateway's own metrics, in the format of Prometheus."""

import re
from collections import Counter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Counter as CounterMetric
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.generation.history import passed_over

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST_NAMES = 64  # of fields; clients choose the names, and each becomes a time series
_NAME = re.compile(r"[\w.-]{1,64}")
_OTHER = "other"


class GatewayMetrics:
    """Metrics of one gateway; the targets have those of generation."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._names: set[str] = set()
        self._passed_over = CounterMetric(
            "outrider_gateway_history_fields_passed_over",
            "Fields of earlier messages that have no effect, by name; 'other' are those after the first 64 names.",
            ["field"],
            registry=self._registry,
        )

    def count_passed_over(self, request: object) -> None:
        """Count the fields of a request's history that have no effect."""
        for name, count in Counter(passed_over(request)).items():
            if len(self._names) < _MOST_NAMES and _NAME.fullmatch(name):
                self._names.add(name)
            self._passed_over.labels(name if name in self._names else _OTHER).inc(count)

    async def page(self, _: Request) -> Response:
        """Return all metrics."""
        return Response(generate_latest(self._registry), media_type=_CONTENT_TYPE)
