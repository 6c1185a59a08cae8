"""DraftMetrics: the draft's Prometheus metrics."""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from services.draft.draft_counts import DraftCounts
from services.draft.link import DraftLink
from services.engine.cache.block_manager import BlockManager
from services.telemetry.metric_page import OWN_PREFIX, MetricPage


class CurrentDraftMetrics(Collector):
    """The metrics of the current engine; an engine that replaces another one counts from 0."""

    def __init__(self, find: "Callable[[], DraftMetrics]") -> None:
        self._find = find

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        return self._find().collect()


class DraftMetrics(Collector):
    """Reads the engine thread's plain counts without making it wait."""

    def __init__(self, counts: DraftCounts, links: Seq[DraftLink], blocks: BlockManager, *, model_name: str) -> None:
        """`links` is the drafter's list of current links."""
        self._counts, self._links, self._blocks = counts, links, blocks
        self._labels = {"model_name": model_name}

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        page, counts = MetricPage(f"{OWN_PREFIX}:draft", self._labels, joint="_"), self._counts
        page.gauge("links", "Targets that are served.", len(self._links))
        page.gauge("sequences", "Sequences that are followed.", sum(len(link.sequences) for link in [*self._links]))
        page.counter("opened_sequences", "Sequences that were opened.", counts.sequences)
        releases = {reason.name.lower(): count for reason, count in counts.releases.items()}
        page.counter("released_sequences", "Sequences that were dropped, by reason.", releases, "reason")
        page.counter("steps", "Steps with work.", counts.steps)
        page.counter("step_seconds", "Time that the steps took.", counts.seconds)
        page.counter("step_rows", "Tokens that were computed, alternates included.", counts.rows)
        page.counter("predicted_tokens", "Tokens that were predicted, alternates aside.", counts.tokens)
        page.counter("runs", "Runs of predictions that were sent.", counts.runs)
        page.counter("alternates", "Alternates that were sent.", counts.alternates)
        text = "KV blocks that are owned, free but cached, and empty."
        page.gauge("kv_blocks", text, self._blocks.num_by_state, "state")
        return page
