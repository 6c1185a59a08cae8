"""Telemetry: a service's metrics and traces, from its start to its end."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from services.telemetry.metrics_server import MetricsServer
from services.telemetry.open_tracing import open_tracing
from services.telemetry.process_metrics import ProcessMetrics
from services.telemetry.telemetry_config import TelemetryConfig

if TYPE_CHECKING:
    from services.telemetry.tracing import Tracing

logger = logging.getLogger(__name__)


class Telemetry:
    """Collects metrics, serves them and sends traces, each if it is configured."""

    def __init__(self, config: TelemetryConfig | None, service: str) -> None:
        """Without a configuration nothing is served or sent; `service` is the name in traces.

        Raises ConfigError if traces are configured and OpenTelemetry is not installed.
        """
        self.config = config or TelemetryConfig()
        self._registry = CollectorRegistry(auto_describe=False)
        self._metrics: MetricsServer | None = None
        self.tracing: Tracing | None = open_tracing(self.config.otlp_endpoint, service)

    def start(self, *collectors: Collector, find_processes: Callable[[], Iterable[int]] = list) -> None:
        """Serve these metrics; raises ConfigError if that is not possible.

        `find_processes` returns the ids of the service's processes beside this one.
        """
        self.add([ProcessMetrics(find_processes), *collectors])
        if self.config.metrics_listen is not None:
            self._metrics = MetricsServer(self.config.metrics_listen, self._registry)
            logger.info("metrics are served on %s", self._metrics.address)

    def add(self, collectors: Iterable[Collector]) -> None:
        """Serve these metrics too, from now on."""
        for collector in collectors:
            self._registry.register(collector)

    def page(self) -> str:
        """Return all current metrics in Prometheus's text format; may be called on any thread."""
        return generate_latest(self._registry).decode()

    async def close(self) -> None:
        """Stop serving, and send the remaining traces."""
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.close)
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)
