"""ProcessMetrics: the usual metrics of a process, added up over all processes of a service."""

from collections.abc import Callable, Iterable

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

_ADDED = {
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_cpu_seconds",
    "process_open_fds",
}
"""The others, such as the time of the start, are those of this process."""


class ProcessMetrics(Collector):
    """Reads what the system knows about the processes."""

    def __init__(self, find_others: Callable[[], Iterable[int]]) -> None:
        """`find_others` returns the ids of the processes beside this one."""
        self._find_others = find_others

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        own = {metric.name: metric for metric in _metrics_of("self")}
        for process_id in self._find_others():
            for metric in _metrics_of(process_id):
                if metric.name in _ADDED:
                    (sample,), (more,) = own[metric.name].samples, metric.samples
                    own[metric.name].samples = [sample._replace(value=sample.value + more.value)]
        return own.values()


def _metrics_of(process_id: int | str) -> Iterable[Metric]:
    """The metrics of a process; none once it has ended."""
    return ProcessCollector(pid=lambda: process_id, registry=None).collect()
