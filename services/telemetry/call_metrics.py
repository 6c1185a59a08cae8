"""CallMetrics: metrics of ended calls."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from services.telemetry.metric_page import OWN_PREFIX, MetricPage


class CallMetrics(Collector):
    """Reads counts that the event loop updates."""

    def __init__(self, calls: Mapping[tuple[str, str], int]) -> None:
        """`calls`: the number of ended calls by method and gRPC code."""
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        """Return one counter with its current values."""
        page = MetricPage(OWN_PREFIX)
        page.counter("calls", "Calls that have ended, by method and gRPC code.", dict(self._calls), "method", "code")
        return page
