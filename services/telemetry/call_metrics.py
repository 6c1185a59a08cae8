"""CallMetrics: how calls have ended, as metrics."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from services.telemetry.metric_page import OWN_PREFIX, MetricPage


class CallMetrics(Collector):
    """Reads counts that the event loop keeps."""

    def __init__(self, calls: Mapping[tuple[str, str], int]) -> None:
        """`calls` are counted by method and code."""
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        """One counter, as it is now."""
        page = MetricPage(OWN_PREFIX)
        page.counter("calls", "Calls that have ended, by method and gRPC code.", dict(self._calls), "method", "code")
        return page
