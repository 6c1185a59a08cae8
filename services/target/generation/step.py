"""TargetStep: one step of the target: schedule, predict, compute, draw, commit."""

import time
from dataclasses import dataclass

from services.engine.events import PassReport
from services.target.generation.deferred_calls import WakeUps
from services.target.generation.model_runner import ModelRunner
from services.target.generation.sampler import Drawn, Sampler
from services.target.scheduling.scheduler import ScheduledRows, Scheduler
from services.target.scheduling.sequence import Sequence
from services.target.speculation.speculation import Speculation


@dataclass(frozen=True, slots=True)
class _Spans:
    """Seconds that a pass took, and that went before it on the host alone, unless the engine was idle then."""

    verifying: float
    host: float | None


class TargetStep:
    """Drives all sequences of the target; every method runs on the engine thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        sampler: Sampler,
        speculation: Speculation,
        wake_ups: WakeUps,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._sampler = sampler
        self._speculation = speculation
        self._wake_ups = wake_ups
        self._pass_ended: float | None = None  # the one before; None after idleness

    def add(self, sequence: Sequence) -> None:
        """Take a new sequence in; a rehearsal is over then."""
        if (rehearsal := self._speculation.rehearsal) is not None:
            rehearsal.fail("there is something else to do")
            self.drop(rehearsal)
        self._scheduler.add(sequence)
        self._speculation.open(sequence)

    def rehearse(self, sequence: Sequence) -> None:
        """Generate this, which nobody waits for, unless there is something else to do."""
        if self._scheduler.sequences:
            sequence.fail("there is something else to do")
            return
        self._scheduler.add(sequence)
        self._speculation.rehearse(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended or that nobody waits for any more; nothing if it is gone already."""
        if self._scheduler.remove(sequence):
            self._speculation.close(sequence)

    def step(self) -> bool:
        """One pass over the next batch; False if no sequence has work."""
        batch = self._prepare()
        if not batch:
            self._pass_ended = None
            return False
        drawn, spans = self._launch(batch)
        self._settle(batch, drawn, spans)
        return True

    def abandon(self, message: str) -> None:
        """Tell every sequence's consumer that no further token will come, and free all blocks."""
        try:
            for sequence in self._scheduler.sequences:
                sequence.fail(message)
                self.drop(sequence)
        finally:
            self._wake_ups.flush()

    def _prepare(self) -> list[ScheduledRows]:
        for sequence in self._scheduler.expired():
            sequence.expire()
            self._end(sequence)
        batch = self._scheduler.schedule()
        self._speculation.extend(batch, self._scheduler, before_waiting=self._wake_ups.flush)
        self._wake_ups.flush()
        return batch

    def _launch(self, batch: list[ScheduledRows]) -> tuple[list[Drawn], _Spans]:
        began, before = time.monotonic(), self._pass_ended
        host = None if before is None else began - before - sum(rows.waiting for rows in batch)
        logits = self._runner.forward(batch)
        drawn = self._sampler.sample(logits, [rows for rows in batch if rows.num_asked])
        self._pass_ended = time.monotonic()
        return drawn, _Spans(verifying=self._pass_ended - began, host=host)

    def _settle(self, batch: list[ScheduledRows], drawn: list[Drawn], spans: _Spans) -> None:
        results = iter(drawn)
        for rows in batch:
            result = next(results) if rows.num_asked else Drawn()
            if rows.draws:
                if rows.sequence.is_telling:
                    rows.sequence.report_progress(result.told, num_new=rows.num_tokens)
                self._commit(rows, result, spans)
            else:
                self._scheduler.settle(rows, 0)
                self._speculation.follow(rows.sequence)
                rows.sequence.report_progress(result.told)
        self._speculation.observe(batch)

    def _commit(self, rows: ScheduledRows, drawn: Drawn, spans: _Spans) -> int:
        sequence = rows.sequence
        num_committed = sequence.commit(drawn.records, _report(rows, spans)) if drawn.records else 0
        is_history_kept = num_committed == len(drawn.records) and not sequence.is_finished
        if drawn.failure is not None and is_history_kept:
            sequence.finish(drawn.failure)
        self._scheduler.settle(rows, num_committed)
        self._speculation.settle(rows, drawn.records[:num_committed])
        if sequence.is_finished:
            self._end(sequence)
        return num_committed

    def _end(self, sequence: Sequence) -> None:
        self.drop(sequence)
        sequence.deliver_end()


def _report(rows: ScheduledRows, spans: _Spans) -> PassReport | None:
    if not rows.sequence.request.output.pass_reports:
        return None
    return PassReport(rows.source, len(rows.predictions), rows.waiting, spans.verifying, spans.host)
