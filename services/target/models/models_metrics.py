"""ModelsMetrics: what a scrape reads of all models of a target, as metrics."""

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from services.target.metrics.target_metrics import TargetMetrics
from services.target.models.target_models import TargetModels
from services.target.speculation.link.draft_links import DraftLinks


class ModelsMetrics(Collector):
    """Each metric once, with the values of every model that is loaded."""

    def __init__(self, models: TargetModels, *, prefix: str) -> None:
        """`prefix` goes before the names that other engines have too."""
        self._models, self._prefix = models, prefix

    def collect(self) -> Iterable[Metric]:
        """All metrics as they are now."""
        families: dict[str, Metric] = {}
        for metrics in self._of_each():
            for metric in metrics.collect():
                if (family := families.setdefault(metric.name, metric)) is not metric:
                    family.samples.extend(metric.samples)
        return families.values()

    def _of_each(self) -> Iterable[TargetMetrics]:
        for model in self._models.all:
            if (serving := model.serving) is not None:
                links = model.drafts.pool.links if model.drafts else DraftLinks
                yield TargetMetrics(
                    serving.engine,
                    serving.load,
                    serving.statistics,
                    links,
                    serving.sessions,
                    prefix=self._prefix,
                    model_name=serving.model.name,
                )
