"""ModelsMetrics: the Prometheus metrics of all models of a target."""

from collections.abc import Iterable
from itertools import chain

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from services.target.metrics.target_metrics import TargetMetrics
from services.target.models.target_models import TargetModels
from services.target.speculation.link.draft_links import DraftLinks
from services.telemetry.metric_page import OWN_PREFIX, MetricPage


class ModelsMetrics(Collector):
    """Each metric once, with the values of every loaded model."""

    def __init__(self, models: TargetModels, *, prefix: str) -> None:
        """`prefix` is the prefix of metrics that other engines have too."""
        self._models, self._prefix = models, prefix

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        families: dict[str, Metric] = {}
        for metric in chain(_loads(self._models), *(metrics.collect() for metrics in self._of_each())):
            if (family := families.setdefault(metric.name, metric)) is not metric:
                family.samples.extend(metric.samples)
        return families.values()

    def _of_each(self) -> Iterable[TargetMetrics]:
        for model in self._models.all:
            if (serving := model.serving) is not None:
                links = model.drafts.links if model.drafts else DraftLinks
                yield TargetMetrics(
                    serving.engine,
                    serving.load,
                    serving.statistics,
                    links,
                    serving.sessions,
                    prefix=self._prefix,
                    model_name=serving.model.name,
                )


def _loads(models: TargetModels) -> Iterable[Metric]:
    for model in models.all:
        page = MetricPage(OWN_PREFIX, {"model_name": model.name})
        page.gauge("model_loaded", "How much of a model is in memory, from 0 to 1.", model.loaded_share)
        page.counter("model_loads", "How often a model was loaded.", model.loads.num_loads)
        page.counter("model_unloads", "How often a model was unloaded.", model.loads.num_unloads)
        page.counter("model_load_seconds", "Seconds spent loading a model, in total.", model.loads.seconds)
        yield from page
