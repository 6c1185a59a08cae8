"""TargetMetrics: the Prometheus metrics of one model of the target."""

import time
from collections.abc import Callable, Iterable
from itertools import chain

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from services.target.generation.engine_figures import EngineFigures, OffloadFigures
from services.target.generation.engine_interface import Engine
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.speculation_metrics import (
    add_decisions,
    add_links,
    add_predictions,
    add_seconds,
    add_shared,
)
from services.target.metrics.target_load import TargetLoad
from services.target.sessions.sessions import Sessions
from services.target.speculation.link.draft_links import DraftLinks
from services.telemetry.metric_page import OWN_PREFIX, MetricPage

_MOST_CALLERS = 32
_OTHER = "other"
_STATES = ("running", "waiting")


class TargetMetrics(Collector):
    """Reads the counts of an engine, which may be in another process, without making it wait."""

    def __init__(
        self,
        engine: Engine,
        load: TargetLoad,
        statistics: RequestStatistics,
        find_links: Callable[[], DraftLinks],
        sessions: Sessions,
        *,
        prefix: str,
        model_name: str,
    ) -> None:
        """`prefix` is the prefix of metrics that other engines have too."""
        self._engine, self._load = engine, load
        self._statistics = statistics
        self._find_links, self._sessions = find_links, sessions
        self._prefix = prefix
        self._labels = {"model_name": model_name}

    def collect(self) -> Iterable[Metric]:
        """The current values of all metrics."""
        shared = MetricPage(self._prefix, {**self._labels, "engine": "0"})
        own = MetricPage(OWN_PREFIX, self._labels)
        figures = self._engine.figures()
        stats = figures.speculation
        self._add_load(shared, figures)
        _add_requests(shared, self._statistics)
        add_shared(shared, stats)
        _add_callers(own, self._statistics)
        self._add_loras(shared, own)
        add_predictions(own, figures)
        add_decisions(own, figures)
        add_seconds(own, figures.speculation_seconds)
        add_links(own, self._find_links(), stats)
        _add_steps(own, figures)
        devices = {(str(rank), name): 1 for rank, name in enumerate(self._engine.facts.config.devices)}
        own.gauge("device_info", "The devices that hold the model together, as labels.", devices, "rank", "device")
        text = "KV blocks that are owned, free but cached, and empty."
        own.gauge("kv_blocks", text, figures.blocks, "state")
        text = "Tokens in the prefix cache that were computed again, since no state of the layers was kept after them."
        own.counter("stateless_cache_tokens", text, figures.stateless_tokens)
        _add_offload(own, figures.offload)
        _add_sessions(own, self._sessions)
        return chain(shared, own)

    def _add_load(self, page: MetricPage, figures: EngineFigures) -> None:
        page.gauge("num_requests_running", "Sequences that take part in passes.", self._load.running)
        text = "Sequences that wait for their turn, or whose prompts are encoded."
        page.gauge("num_requests_waiting", text, self._load.waiting)
        page.gauge("kv_cache_usage_perc", "The part of the KV blocks in use, from 0 to 1.", self._load.cache_usage)
        page.counter("num_preemptions", "Sequences that were preempted.", figures.num_preemptions)
        facts = self._engine.facts
        sizes = {(str(facts.block_size), str(facts.num_blocks)): 1}
        page.gauge("cache_config_info", "The KV cache, as labels.", sizes, "block_size", "num_gpu_blocks")

    def _add_loras(self, shared: MetricPage, own: MetricPage) -> None:
        """All adapters of the model may be in one pass; of several samples, pickers read the one of the latest time."""
        adapters, states = [*self._engine.adapters], self._statistics.by_lora()
        names = (",".join(name for name in adapters if states[name][state]) for state in _STATES)
        values = {(str(len(adapters)), *names): time.time()} if adapters else {}
        labels = ("max_lora", *(f"{state}_lora_adapters" for state in _STATES))
        text = "The adapters that may run at once, that run and that wait, as labels; the value is the time."
        shared.gauge("lora_requests_info", text, values, *labels)
        totals = {name: states[name].total() for name in adapters}
        own.gauge("lora_requests", "Sequences of each adapter, running or waiting.", totals, "lora")


def _add_requests(page: MetricPage, statistics: RequestStatistics) -> None:
    page.counter("prompt_tokens", "Tokens of prompts, cached ones included.", statistics.prompt_tokens)
    page.counter("generation_tokens", "Tokens that were sent.", statistics.generated_tokens)
    page.counter("prefix_cache_queries", "Tokens looked up in the prefix cache.", statistics.prompt_tokens)
    page.counter("prefix_cache_hits", "Tokens found in the prefix cache.", statistics.cached_tokens)
    ended = {str(reason): count for reason, count in statistics.ended.items()}
    page.counter("request_success", "Sequences that have ended, by reason.", ended, "finished_reason")
    seen = statistics.histograms
    page.histogram("e2e_request_latency_seconds", "From arrival to the end.", seen.latency)
    page.histogram("time_to_first_token_seconds", "From arrival to the first token.", seen.first_token)
    page.histogram("inter_token_latency_seconds", "Between two tokens of a sequence.", seen.between_tokens)
    page.histogram("request_queue_time_seconds", "From arrival to the first pass.", seen.queue)
    page.histogram("request_prefill_time_seconds", "From the first pass to the first token.", seen.prefill)
    page.histogram("request_decode_time_seconds", "From the first token to the end.", seen.decode)
    page.histogram("request_prompt_tokens", "Tokens of each prompt.", seen.prompt_tokens)
    page.histogram("request_generation_tokens", "Tokens of each answer.", seen.generated_tokens)


def _add_callers(page: MetricPage, statistics: RequestStatistics) -> None:
    """The callers with the most sequences by name, and all others together."""
    callers = sorted(statistics.by_caller().items(), key=lambda item: -item[1].total())
    values: dict[tuple[str, str], int] = {}
    for index, (name, states) in enumerate(callers):
        label = _caller_label(name) if index < _MOST_CALLERS else _OTHER
        for state in _STATES:
            values[label, state] = values.get((label, state), 0) + states[state]
    page.gauge("caller_requests", "Sequences of each caller, by their state.", values, "caller", "state")


def _caller_label(name: str) -> str:
    """A caller's name; for a connection without a name, the host that it comes from."""
    return name.rpartition(":")[0] if name.startswith(("ipv4:", "ipv6:")) else name


def _add_sessions(page: MetricPage, sessions: Sessions) -> None:
    page.gauge("sessions", "Open sessions, which requests may continue.", sessions.num_open)
    blocks = {"held": sessions.quota.num_blocks, "most": sessions.quota.limits.blocks}
    page.gauge("session_kv_blocks", "KV blocks that sessions hold, and the most that they may.", blocks, "kind")


def _add_offload(page: MetricPage, offload: OffloadFigures) -> None:
    text = "Bytes of KV blocks that the offload holds, and the most that it may."
    page.gauge("kv_offload_bytes", text, {"held": offload.held_bytes, "most": offload.most_bytes}, "kind")
    moves = {
        "stored": offload.stored,
        "found": offload.found,
        "missed": offload.missed,
        "dropped": offload.dropped,
    }
    text = "KV blocks that were stored in the offload, found or missed there, or dropped."
    page.counter("kv_offload_moves", text, moves, "move")
    page.gauge("kv_offload_failed", "Whether the offload is disabled after a disk error.", int(offload.has_failed))


def _add_steps(page: MetricPage, figures: EngineFigures) -> None:
    page.counter("steps", "Passes, by the limit that kept them from more work.", figures.steps, "limit")
    page.counter("step_rows", "Rows of all passes.", figures.rows, "kind")
    text = "Time of the model, of waiting for predictions, and of the host between passes."
    page.counter("step_seconds", text, figures.step_seconds, "part")
