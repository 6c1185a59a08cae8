"""RequestStatistics: counts requests and their results, and logs each one at its end."""

import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from services.engine.events import Chunk, Event, Finished, FinishReason, Scheduled, Timings
from services.engine.request import Request
from services.target.sequence.generation import Generation
from services.telemetry.histogram import Histogram
from services.telemetry.trace_context import trace_id

logger = logging.getLogger(__name__)

_SECONDS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_BETWEEN_TOKENS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
_TOKENS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))


class EndReason(StrEnum):
    """Why a request ended, in the words that other engines use."""

    STOP = "stop"
    LENGTH = "length"
    TIME = "time"
    REPETITION = "repetition"
    ERROR = "error"
    ABORT = "abort"  # by its caller, or with the server


END_REASONS = {
    FinishReason.STOP_TOKEN: EndReason.STOP,
    FinishReason.STOP_STRING: EndReason.STOP,
    FinishReason.MAX_TOKENS: EndReason.LENGTH,
    FinishReason.CONTEXT_LENGTH: EndReason.LENGTH,
    FinishReason.DEADLINE: EndReason.TIME,
    FinishReason.TIME_LIMIT: EndReason.TIME,
    FinishReason.LOOP: EndReason.REPETITION,
    FinishReason.NO_CANDIDATES: EndReason.ERROR,
    FinishReason.GRAMMAR_INCOMPLETE: EndReason.ERROR,
    FinishReason.INVALID_LOGITS: EndReason.ERROR,
}


@dataclass(frozen=True, slots=True)
class RequestHistograms:
    """How long requests took, in seconds, and how many tokens they had."""

    latency: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    queue: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    prefill: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    decode: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    first_token: Histogram = field(default_factory=lambda: Histogram(_FIRST_TOKEN))
    between_tokens: Histogram = field(default_factory=lambda: Histogram(_BETWEEN_TOKENS))
    prompt_tokens: Histogram = field(default_factory=lambda: Histogram(_TOKENS))
    generated_tokens: Histogram = field(default_factory=lambda: Histogram(_TOKENS))


class RequestStatistics:
    """One event loop counts, any thread reads. Warm-ups and rehearsals have no reader and are not counted."""

    def __init__(self) -> None:
        self.histograms = RequestHistograms()
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generated_tokens = 0
        self.ended = dict.fromkeys(EndReason, 0)
        self._heard_at: dict[Generation, float] = {}  # when the last chunk came of each whose reader is here; 0 before

    def begin(self, generations: Iterable[Generation]) -> None:
        """Count these generations, which have a reader from now on."""
        self._heard_at.update(dict.fromkeys(generations, 0.0))

    def observe(self, generation: Generation, event: Event) -> None:
        """Count an event of a generation."""
        match event:
            case Chunk():
                self._observe_tokens(generation, len(event.records))
            case Scheduled():
                self.prompt_tokens += generation.num_prompt
                self.cached_tokens += event.num_cached
            case Finished():
                self._observe_end(generation.timings, event)

    def _observe_tokens(self, generation: Generation, count: int) -> None:
        before, now = self._heard_at[generation], time.monotonic()
        self._heard_at[generation] = now
        self.generated_tokens += count
        if before and count:
            _observe(self.histograms.between_tokens, (now - before) / count, count)

    def _observe_end(self, timings: Timings, finished: Finished) -> None:
        histograms = self.histograms
        scheduled = timings.scheduled or timings.finished
        prefilled = timings.prefilled or timings.finished
        _observe(histograms.latency, timings.finished - timings.arrived)
        _observe(histograms.queue, scheduled - timings.arrived)
        _observe(histograms.prefill, prefilled - scheduled)
        _observe(histograms.decode, timings.finished - prefilled)
        if timings.prefilled:
            _observe(histograms.first_token, timings.prefilled - timings.arrived)
        _observe(histograms.prompt_tokens, finished.prompt_tokens)
        _observe(histograms.generated_tokens, finished.completion_tokens)

    def end(self, generation: Generation) -> None:
        """Count and log a generation whose reader has gone, at its end or before."""
        _log(generation)
        del self._heard_at[generation]
        self.ended[EndReason.ABORT if generation.end is None else END_REASONS[generation.end]] += 1

    @property
    def num_live(self) -> int:
        """Generations whose readers are here."""
        return len(self._heard_at)

    @property
    def live(self) -> list[Generation]:
        """The generations whose readers are here."""
        return [*self._heard_at.copy()]

    def by_caller(self) -> defaultdict[str, Counter[str]]:
        """For each caller the number of its generations that run, and that wait for their first pass."""
        return _count_states((each.request.share.caller, each) for each in self.live)

    def by_lora(self) -> defaultdict[str, Counter[str]]:
        """The same for each adapter that generations use."""
        return _count_states((lora.name, each) for each in self.live if (lora := each.request.lora))


def _count_states(named: Iterable[tuple[str, Generation]]) -> defaultdict[str, Counter[str]]:
    """Count the generations of each name that run, and that wait for their first pass."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, generation in named:
        counts[name]["running" if generation.timings.scheduled else "waiting"] += 1
    return counts


def _observe(histogram: Histogram, value: float, times: int = 1) -> None:
    histogram.counts[bisect_left(histogram.bounds, value)] += times
    histogram.sum += value * times


def identity(request: Request) -> dict[str, str]:
    """The fields that identify a request in a structured log line."""
    named = {"request_id": request.request_id}
    return {**named, "trace_id": trace_id(request.traceparent)} if request.traceparent else named


def _log(generation: Generation) -> None:
    """Log one line per sample, without prompts, seeds and texts."""
    timings = generation.timings
    logger.info(
        "request %s: %s prompt + %s tokens (%s received, %s cached), %s, queued %.3f s, first token %.3f s, "
        "total %.3f s",
        generation.request.request_id,
        generation.num_prompt,
        generation.num_generated,
        len(generation.request.received),
        generation.num_cached,
        "CANCELLED" if generation.end is None else generation.end.name,
        max(timings.scheduled - timings.arrived, 0.0),
        max(timings.prefilled - timings.arrived, 0.0),
        time.monotonic() - timings.arrived,
        extra=identity(generation.request),
    )
