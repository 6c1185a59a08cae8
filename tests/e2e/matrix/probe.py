"""Probe: counts of a server's events, in a file that outlives its process."""

import mmap
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.draft_protocol.messages import DraftMessage, Prediction
from services.engine.events import VocabularyMatch
from services.engine.request import Request
from services.target.generation.engine import TargetEngine
from services.target.generation.sampler import SamplerOutput
from services.target.output.output_pipeline import OutputPipeline
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.speculation.link.remote_predictor import RemotePredictor
from tests.e2e.matrix.cells import ALL_MODELS

_LASTING = ("links", "lost_links")
_COUNTERS = (
    "most_sequences",
    "partial_prefills",
    "preemptions",
    "resumed_streams",
    "resumed_tokens",
    "useful_runs",
    "fresh_runs",
    "broken_runs",
    *_LASTING,
)
_COUNT = struct.Struct("<q")


class Probe:
    """Counts shared between a server and the test that reads them.

    `most_sequences` is the most that one pass held, `preemptions` the most that live sequences had been through,
    `fresh_runs` the useful runs since the last commit; the others are sums, `broken_runs` of the passes in which a
    prediction was right and tokens were taken back. The last
    two are not reset: they tell whether the target is linked with a draft. What only keeps a stream company, warms the
    engine up or is a rehearsal counts as a sequence and for nothing else.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(len(_COUNTERS) * _COUNT.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._adding = threading.Lock()  # the engine thread and the event loop both count

    def read(self) -> dict[str, int]:
        """The counts by name."""
        counts = (count for (count,) in _COUNT.iter_unpack(self._memory[:]))
        return dict(zip(_COUNTERS, counts, strict=True))

    def reset(self) -> None:
        """All counts that do not last to 0."""
        for index, name in enumerate(_COUNTERS):
            if name not in _LASTING:
                _COUNT.pack_into(self._memory, index * _COUNT.size, 0)

    def close(self) -> None:
        """Unmap the file."""
        self._memory.close()

    def watch(self, engine: TargetEngine) -> None:
        """Count from now on what this engine is given by cells, and what it schedules of that."""
        scheduler, schedule, start = engine.scheduler, engine.scheduler.schedule, engine.start

        def watched_schedule() -> list[ScheduledRows]:
            batch = schedule()
            preemptions = sum(sequence.num_preemptions for sequence in scheduler.sequences if _counts(sequence.request))
            self._saw(batch, preemptions)
            return batch

        def watched_start(outputs: Mapping[int, OutputPipeline]) -> None:
            request = next(iter(outputs.values())).sequence.request
            if _counts(request):
                self._add(resumed_streams=bool(request.received), resumed_tokens=len(request.received))
            start(outputs)

        step = engine._step
        commit = step._commit

        def watched_commit(rows: ScheduledRows, sampled: SamplerOutput, spans: Any) -> int:
            num_kept = commit(rows, sampled, spans)
            is_broken = num_kept < len(sampled.records) and not rows.sequence.is_finished
            self._add(broken_runs=is_broken and len(sampled.records) > 1)
            if _counts(rows.sequence.request):
                num_fresh = int(rows.sequence.is_finished)  # nothing is predicted after an end, or waited for
                self._add(fresh_runs=num_fresh - self.read()["fresh_runs"])
            return num_kept

        step._commit = watched_commit  # type: ignore[method-assign]
        scheduler.schedule = watched_schedule  # type: ignore[method-assign]
        engine.start = watched_start  # type: ignore[method-assign]

    def watch_link(self, predictor: RemotePredictor) -> None:
        """Count from now on when a target's link to its draft comes and goes, and what it brings; there is none yet."""
        connected, disconnected, hear = predictor.connected, predictor.disconnected, predictor.hear
        counts = self.read()
        self._add(lost_links=counts["links"] - counts["lost_links"])  # those of a process that was killed

        def watched_connected(vocabulary: VocabularyMatch | None = None, **credit: int) -> None:
            connected(vocabulary, **credit)
            self._add(links=1)

        def watched_disconnected(reason: str) -> None:
            was_linked = not predictor.absence
            disconnected(reason)
            self._add(lost_links=was_linked)

        def watched_hear(message: DraftMessage) -> bool:
            is_useful = hear(message)
            is_run = is_useful and isinstance(message, Prediction)
            self._add(useful_runs=is_run, fresh_runs=is_run)
            return is_useful

        predictor.hear = watched_hear  # type: ignore[method-assign]
        predictor.connected = watched_connected  # type: ignore[method-assign]
        predictor.disconnected = watched_disconnected  # type: ignore[method-assign]

    def _saw(self, batch: list[ScheduledRows], preemptions: int) -> None:
        counts = self.read()
        self._add(
            most_sequences=max(len(batch) - counts["most_sequences"], 0),
            preemptions=max(preemptions - counts["preemptions"], 0),
            partial_prefills=sum(_is_partial(rows) and _counts(rows.sequence.request) for rows in batch),
        )

    def _add(self, **amounts: int) -> None:
        with self._adding:
            for name, amount in amounts.items():
                offset = _COUNTERS.index(name) * _COUNT.size
                _COUNT.pack_into(self._memory, offset, _COUNT.unpack_from(self._memory, offset)[0] + amount)


def _is_partial(rows: ScheduledRows) -> bool:
    """Whether more is needed than this run computes, but for a first sample that stops where further ones start from:
    it may have later tokens already, if it was preempted before they had room.
    """
    sequence = rows.sequence
    end = sequence.text.num_computed + rows.num_tokens
    stops_for_others = sequence.request.num_samples > 1 and end == sequence.num_shared[0]
    return end < sequence.prompt_results.num_needed and not stops_for_others


def _counts(request: Request) -> bool:
    return request.request_id.startswith(ALL_MODELS)
