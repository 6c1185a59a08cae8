"""TargetStep: one step of the target: schedule, predict, compute, draw, commit."""

import time
from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from services.engine.decoder.native import Pass
from services.engine.events import Aborted, Failed, FinishReason, PassReport, PredictionSource
from services.target.generation.deliveries import Deliveries
from services.target.generation.model_runner import ModelRunner
from services.target.generation.sampler import Sampler, SamplerOutput
from services.target.output.output_pipeline import OutputPipeline
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.speculation.speculation import Speculation

_BUSY = Failed("there is something else to do")
_MAX_WAIT = 0.01  # seconds for a grammar's new matcher, so that other commands of the engine are not held up


@dataclass(frozen=True, slots=True)
class _Spans:
    """Seconds that a pass took, and that the host's work before it took, None if the engine was idle before."""

    verifying: float
    host: float | None
    drafting: float  # of an attached drafter, before it


@dataclass(slots=True)
class StepSeconds:
    """Seconds that all passes took, that they waited for predictions, and that the host worked between passes."""

    computing: float = 0.0
    waiting: float = 0.0
    host: float = 0.0


@dataclass(frozen=True, slots=True)
class _NextPass:
    """A pass that is laid out but for its tokens."""

    scheduled: list[ScheduledRows]
    drawn_rows: list[int]  # of the logits of the pass before, from which their tokens are drawn


@dataclass(frozen=True, slots=True)
class _LaunchedPass:
    """A pass that was launched when the tokens before it were drawn, while the host had yet to commit them."""

    scheduled: list[ScheduledRows]
    results: Pass
    began: float


class TargetStep:
    """Drives all sequences of the target; every method runs on the engine thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        sampler: Sampler,
        speculation: Speculation,
        deliveries: Deliveries,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._sampler = sampler
        self._speculation = speculation
        self._deliveries = deliveries
        self._outputs: dict[Sequence, OutputPipeline] = {}
        self._unwritten: deque[OutputPipeline] = deque()  # with tokens, or an end, that are in no stream yet
        self._renewing: list[Sequence] = []  # those whose grammars are matched anew
        self._launched: _LaunchedPass | None = None  # the next step's pass
        self._pass_ended: float | None = None  # when the last pass ended; None after an idle step
        self.seconds = StepSeconds()
        self.num_tokens = 0  # committed, of all sequences

    def step(self) -> bool:
        """Run one pass over the next batch; False if no sequence has work."""
        for sequence in self._scheduler.expired():
            self._write()
            self._outputs[sequence].expire()
            self._end(sequence)
        self._renewing = [each for each in self._renewing if each in self._outputs and not _is_ready(each)]
        launched, self._launched = self._launched, None
        batch = self._scheduler.go_on(launched.scheduled) if launched else []
        if batch:
            self._speculation.go_on()
        else:
            launched, batch = None, self._schedule()
        if not (batch and self._runner.returns_early):
            self._deliver()
        if not batch:
            self._pass_ended = None
            if self._renewing:
                self._renewing[0].draw.allowed.grammar.wait(_MAX_WAIT)
            return bool(self._renewing)
        sampled, spans = self._compute(batch, launched)
        for rows, output in zip(batch, sampled, strict=True):
            self._commit(rows, output, spans)
        self._speculation.observe(batch)
        if not self._runner.returns_early:
            self._write()
        return True

    def _schedule(self) -> list[ScheduledRows]:
        batch = self._scheduler.schedule()
        spare, expected = self._scheduler.spare_rows, self._scheduler.expected_rows(batch)
        for rows, predictions in self._speculation.predict(
            batch, spare_rows=spare, expected_rows=expected, before_waiting=self._deliver
        ):
            self._scheduler.add_predictions(rows, predictions)
            if not rows.predictions:
                self._speculation.withdraw(rows)
        return batch

    def _write(self) -> None:
        """Put what was committed into the streams."""
        while self._unwritten:
            self._unwritten.popleft().write()

    def _deliver(self) -> None:
        """Let readers have what was committed."""
        self._write()
        self._deliveries.flush()

    def _compute(
        self, batch: list[ScheduledRows], launched: _LaunchedPass | None
    ) -> tuple[list[SamplerOutput], _Spans]:
        began, before = launched.began if launched else time.monotonic(), self._pass_ended
        waiting = self._speculation.drafting + sum(rows.waiting for rows in batch)
        host = None if before is None else max(0.0, began - before - waiting)
        results = launched.results if launched else self._runner.forward(batch)
        if self._runner.returns_early:  # the device computes meanwhile
            self._deliver()
        scheduled = launched.scheduled if launched else batch
        end_pass = partial(self._end_pass, self._prepare_next(batch, scheduled))
        sampled = self._sampler.sample(results.logits, scheduled, end_pass)
        self._runner.pool(results, batch)
        assert self._pass_ended is not None
        self.seconds.computing += self._pass_ended - began
        self._scheduler.observe(batch, self._pass_ended - began)
        self.seconds.waiting += waiting
        self.seconds.host += host or 0.0
        return sampled, _Spans(self._pass_ended - began, host, self._speculation.drafting)

    def _prepare_next(self, batch: list[ScheduledRows], scheduled: list[ScheduledRows]) -> _NextPass | None:
        """Lay out the pass after that of `batch`, which are those of `scheduled` that are not void, if it may be
        launched early.
        """
        if not (self._runner.may_launch_next and self._speculation.is_idle(batch)):
            return None
        if not (following := self._scheduler.schedule_next(batch)):
            return None
        self._runner.prepare_next(following)
        ends = accumulate(rows.num_logits for rows in scheduled)
        last_rows = {rows.sequence: end - 1 for rows, end in zip(scheduled, ends, strict=True)}
        return _NextPass(following, [last_rows[rows.sequence] for rows in following])

    def _end_pass(self, following: _NextPass | None, token_ids: Seq[int]) -> None:
        """Note the end of a pass whose tokens are drawn, and launch the one that follows.

        So the device does not wait until these tokens are committed. Rows of sequences that do not go on are computed
        for nothing; no other row sees them.
        """
        self._pass_ended = time.monotonic()
        if following is not None:
            results = self._runner.forward_next([max(0, token_ids[row]) for row in following.drawn_rows])
            self._launched = _LaunchedPass(following.scheduled, results, self._pass_ended)

    def _commit(self, rows: ScheduledRows, sampled: SamplerOutput, spans: _Spans) -> int:
        sequence, output = rows.sequence, self._outputs[rows.sequence]
        if not rows.draws or not sequence.prompt_results.is_complete:
            output.report_progress(sampled.prompt_records, num_new=rows.num_tokens)
        if sequence.prompt_results.ends_at(sequence.text.num_computed + rows.num_tokens):
            output.finish(FinishReason.MAX_TOKENS)  # which is 0 for such a request
        num_committed = output.commit(sampled.records, _report(rows, spans)) if sampled.records else 0
        is_history_kept = num_committed == len(sampled.records) and not sequence.is_finished
        if sampled.failure is not None and is_history_kept:
            output.finish(sampled.failure)
        self.num_tokens += num_committed
        self._scheduler.settle(rows, num_committed)
        self._speculation.settle(rows, sampled.records[:num_committed])
        if not _is_ready(sequence):
            self._renewing.append(sequence)
        if sequence.is_finished:
            self._end(sequence)
        elif num_committed:
            self._unwritten.append(output)
        return num_committed

    def _end(self, sequence: Sequence) -> None:
        self._unwritten.append(self._outputs[sequence])
        self.drop(sequence)

    def add(self, output: OutputPipeline) -> None:
        """Add a new sequence with its output pipeline; this ends a rehearsal."""
        if (rehearsal := self._speculation.rehearsal) is not None:
            self._write()
            rehearsal.stream.put(_BUSY)
            self.drop(rehearsal)
        self._outputs[output.sequence] = output
        self._scheduler.add(output.sequence)
        self._speculation.open(output.sequence)

    def rehearse(self, output: OutputPipeline) -> None:
        """Generate the text of a rehearsal, unless there are other sequences."""
        if self._outputs:
            output.sequence.stream.put(_BUSY)
            return
        self._outputs[output.sequence] = output
        self._scheduler.add(output.sequence)
        self._speculation.rehearse(output.sequence)

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended or whose reader has gone; does nothing if it was dropped already."""
        if self._scheduler.remove(sequence):
            self._speculation.close(sequence)
            del self._outputs[sequence]

    def abort(self, sequence: Sequence, message: str) -> None:
        """End a sequence for good with an error; does nothing if it was dropped already."""
        if sequence in self._outputs:
            self._write()
            sequence.stream.put(Aborted(message))
            self.drop(sequence)

    def abandon(self, message: str) -> None:
        """End every sequence with an error, and free all blocks."""
        self._launched = None
        try:
            self._write()
            for sequence in self._scheduler.sequences:
                sequence.stream.put(Failed(message))
                self.drop(sequence)
        finally:
            self._deliveries.flush()


def _is_ready(sequence: Sequence) -> bool:
    return sequence.draw.allowed.grammar.is_ready


def _report(rows: ScheduledRows, spans: _Spans) -> PassReport | None:
    if not rows.sequence.request.output.pass_reports:
        return None
    return PassReport(
        rows.source,
        tuple(rows.predictions),
        rows.waiting + (spans.drafting if rows.source is PredictionSource.ATTACHED else 0.0),
        spans.verifying,
        spans.host,
        num_alternates=rows.sequence.speculation.alternates,
    )
