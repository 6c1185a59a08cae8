"""TargetLoad: the target's load, for metrics and load balancers."""

import time
from collections.abc import Callable

from services.target.generation.engine_interface import Engine
from services.target.metrics.request_statistics import RequestStatistics
from services.telemetry.load_report import LoadReport

_RATE_SECONDS = 5.0  # the least time over which a rate is measured


class TargetLoad:
    """Reads the load of an engine from any thread."""

    def __init__(self, engine: Engine, statistics: RequestStatistics, in_flight: Callable[[], int]) -> None:
        """`in_flight` counts the sequences that are admitted."""
        self._engine, self._statistics, self._in_flight = engine, statistics, in_flight
        self._requests = Rate(lambda: sum(statistics.ended.values()))
        self._tokens = Rate(lambda: statistics.generated_tokens)

    @property
    def waiting(self) -> int:
        """Sequences that wait for their turn, or whose prompts are encoded."""
        return max(0, self._in_flight() - self._statistics.num_live) + self._engine.load.waiting

    @property
    def running(self) -> int:
        """Sequences that take part in passes."""
        return self._engine.load.running

    @property
    def cache_usage(self) -> float:
        """The share of the KV blocks that sequences own, from 0 to 1."""
        return self._engine.load.used_blocks / self._engine.facts.num_blocks

    @property
    def utilization(self) -> float:
        """Sequences divided by the most that may run at once; above 1 if some wait."""
        return (self.running + self.waiting) / self._engine.facts.config.max_sequences

    def report(self) -> bytes:
        """The load report (ORCA) for a load balancer."""
        named = {
            "num_requests_waiting": self.waiting,
            "num_requests_running": self.running,
            "kv_cache_usage_perc": self.cache_usage,
        }
        return LoadReport(
            mem_utilization=self.cache_usage,
            application_utilization=self.utilization,
            rps=self.request_rate(),
            named_metrics=named,
        ).encode()

    @property
    def cache_hit_rate(self) -> float:
        """The share of all prompt tokens so far that the prefix cache had, from 0 to 1."""
        return self._statistics.cached_tokens / max(1, self._statistics.prompt_tokens)

    def request_rate(self) -> float:
        """Sequences that have ended per second, over some seconds before this call."""
        return self._requests.per_second()

    def token_rate(self) -> float:
        """Tokens generated per second, over some seconds before this call."""
        return self._tokens.per_second()


class Rate:
    """Reads the count when it is called, and compares it with an earlier reading."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._seen = self._seen_before = (time.monotonic(), count())

    def per_second(self) -> float:
        """Return the growth per second over the last seconds before this call."""
        now, count = time.monotonic(), self._count()
        if now - self._seen[0] >= _RATE_SECONDS:
            self._seen_before, self._seen = self._seen, (now, count)
        since, before = self._seen_before
        return (count - before) / max(now - since, _RATE_SECONDS)
