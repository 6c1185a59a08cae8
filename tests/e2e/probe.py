"""Probe: what a server did, counted in a file that outlives its process."""

import mmap
import struct
from pathlib import Path
from typing import Any

from services.engine.request import Request
from services.engine.scheduler import ScheduledRows
from services.target.engine import TargetEngine
from tests.e2e.streams import INTRUDER

_COUNTERS = ("most_sequences", "partial_prefills", "preemptions", "resumed_streams", "resumed_tokens")
_FORMAT = f"<{len(_COUNTERS)}q"


class Probe:
    """Counts shared between the server that does things and the test that asks what was done.

    `most_sequences` is the most that one pass held, `preemptions` the most that live sequences had been through; the
    others are sums. A stream that only keeps another company counts as a sequence and for nothing else.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(struct.calcsize(_FORMAT)))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def read(self) -> dict[str, int]:
        """The counts by name."""
        return dict(zip(_COUNTERS, struct.unpack(_FORMAT, self._memory[:]), strict=True))

    def reset(self) -> None:
        """All counts to 0."""
        self._memory[:] = bytes(len(self._memory))

    def close(self) -> None:
        """Unmap the file."""
        self._memory.close()

    def watch(self, engine: TargetEngine) -> None:
        """Count from now on what this engine is given and what it schedules."""
        scheduler, schedule, submit = engine.scheduler, engine.scheduler.schedule, engine.submit

        def watched_schedule() -> list[ScheduledRows]:
            batch = schedule()
            preemptions = sum(sequence.num_preemptions for sequence in scheduler.sequences if _counts(sequence.request))
            self._saw(batch, preemptions)
            return batch

        def watched_submit(request: Request) -> Any:
            if _counts(request):
                self._add(resumed_streams=bool(request.received), resumed_tokens=len(request.received))
            return submit(request)

        scheduler.schedule = watched_schedule  # type: ignore[method-assign]
        engine.submit = watched_submit  # type: ignore[method-assign]

    def _saw(self, batch: list[ScheduledRows], preemptions: int) -> None:
        counts = self.read()
        self._add(
            most_sequences=max(len(batch) - counts["most_sequences"], 0),
            preemptions=max(preemptions - counts["preemptions"], 0),
            partial_prefills=sum(not rows.draws and _counts(rows.sequence.request) for rows in batch),
        )

    def _add(self, **amounts: int) -> None:
        if any(amounts.values()):
            counts = self.read()
            self._memory[:] = struct.pack(_FORMAT, *(counts[name] + amounts.get(name, 0) for name in _COUNTERS))


def _counts(request: Request) -> bool:
    return not request.request_id.startswith(INTRUDER)
