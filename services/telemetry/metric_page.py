"""MetricPage: collects the metrics of one scrape."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from services.telemetry.histogram import Histogram

Values = float | Mapping[str, float] | Mapping[tuple[str, str], float] | Mapping[tuple[str, ...], float]
OWN_PREFIX = "outrider"


class MetricPage:
    """Collects metrics of one prefix, each with the same labels beside its own."""

    def __init__(self, prefix: str, labels: Mapping[str, str] | None = None, *, joint: str = ":") -> None:
        """`joint` stands between the prefix and each name."""
        self._prefix = f"{prefix}{joint}"
        self._labels = labels or {}
        self._metrics: list[Metric] = []

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics)

    def counter(self, name: str, text: str, values: Values, *labels: str) -> None:
        """Add a counter; `values` are by the values of its own `labels`, if it has any."""
        self._add(CounterMetricFamily(f"{self._prefix}{name}", text, labels=[*self._labels, *labels]), values)

    def gauge(self, name: str, text: str, values: Values, *labels: str) -> None:
        """Add a gauge; `values` as for a counter."""
        self._add(GaugeMetricFamily(f"{self._prefix}{name}", text, labels=[*self._labels, *labels]), values)

    def histogram(self, name: str, text: str, values: Histogram | Mapping[str, Histogram], *labels: str) -> None:
        """Add a histogram; `values` are by the value of its own label, if it has one."""
        family = HistogramMetricFamily(f"{self._prefix}{name}", text, labels=[*self._labels, *labels])
        by_label = values.items() if isinstance(values, Mapping) else [("", values)]
        for own, histogram in by_label:
            bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
            buckets = [*zip(bounds, map(float, accumulate(histogram.counts)), strict=True)]
            family.add_metric([*self._labels.values(), *([own] if labels else [])], buckets, histogram.sum)
        self._metrics.append(family)

    def _add(self, family: CounterMetricFamily | GaugeMetricFamily, values: Values) -> None:
        by_label = values.items() if isinstance(values, Mapping) else [((), values)]
        for own, value in by_label:
            family.add_metric([*self._labels.values(), *((own,) if isinstance(own, str) else own)], value)
        self._metrics.append(family)
