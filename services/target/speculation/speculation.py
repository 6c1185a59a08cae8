"""Speculation: speculative decoding; adds predictions to each pass for verification, and counts their results."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from itertools import compress

from services.engine.config import MOST_PREDICTIONS
from services.engine.events import NoSpeculation, PredictionSource, SpeculationSeconds, TokenRecord
from services.engine.request import SpeculationMode
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.speculation.attached.attached_predictor import AttachedPredictor
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import Decision, StepSize
from services.target.speculation.predictors.predictor import DraftPredictor, Predictor
from services.target.speculation.source import AttachedSource, DraftSource, Source, is_automatic
from services.target.speculation.speculation_totals import SpeculationTotals
from services.target.speculation.step_record import StepRecord

Run = tuple[ScheduledRows, list[int]]
"""A sequence's rows, and the predictions for them."""


_COMPUTED = {PredictionSource.ATTACHED, PredictionSource.DRAFT}
_COMPARED_EVERY = 16  # steps


def _nothing() -> None:
    pass


class Speculation:
    """Predicts the next tokens of decoding sequences, and counts the predictions that were accepted."""

    def __init__(
        self,
        predictors: Seq[Predictor],
        *,
        vocab_size: int,
        config: PolicyConfig | None = None,
        padded: Callable[[int], int] = int,
        most_expected: int = MOST_PREDICTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The predictors are asked in turn; the first that predicts anything for a sequence serves it in a step.

        `padded` returns the rows that the device computes for a pass of so many; in each pass at most `most_expected`
        tokens are verified that a request expects.
        """
        self._most_expected = most_expected
        self._config = config = config or PolicyConfig()
        self._clock = clock
        self._passes = PassCost(config, padded)
        self._regret = Regret(config, clock)
        self._sources = [*map(self._source, predictors)]
        self._vocab_size = vocab_size
        self._num_steps = 0
        self._ended = clock()  # when the last step was observed
        self._step = StepRecord(began=clock())
        self.seconds, self.totals = SpeculationSeconds(), SpeculationTotals()
        self.rehearsal: Sequence | None = None
        """The sequence of a rehearsal, while there is one."""

    def decisions(self) -> Counter[tuple[PredictionSource, Decision]]:
        """How often each decision was made for each source of predictions; for any thread."""
        counts: Counter[tuple[PredictionSource, Decision]] = Counter()
        for source in self._sources:
            counts.update({(source.kind, decision): count for decision, count in source.decisions.items()})
        return counts

    def add(self, predictor: Predictor, sequences: Iterable[Sequence]) -> None:
        """Add a predictor, from the next step on and for these sequences too; it comes before the last lookup."""
        is_lookup_last = bool(self._sources) and self._sources[-1].kind is PredictionSource.LOOKUP
        source = self._source(predictor)
        self._sources.insert(len(self._sources) - is_lookup_last, source)
        for sequence in filter(_is_followed, sequences):
            source.follow(sequence)

    def remove(self, predictor: Predictor, sequences: Iterable[Sequence]) -> None:
        """Remove a predictor, and let it forget these sequences, which must be all that it follows."""
        (source,) = (each for each in self._sources if each.predictor is predictor)
        self._sources.remove(source)
        for sequence in sequences:
            if _is_followed(sequence):
                source.close(sequence)
            if not self._sources:  # nobody keeps accounts any more
                self._regret.leave(sequence)

    def open(self, sequence: Sequence) -> None:
        """Begin to follow a new sequence, after the healing of its prompt if there is any."""
        self.totals.begin(sequence)
        if not _is_allowed(sequence):
            _explain(sequence, NoSpeculation.FORBIDDEN, "the request forbids it")
        elif not self._sources:
            _explain(sequence, NoSpeculation.NO_PREDICTOR, "there is no draft, no head, and no lookup")
        else:
            self.follow(sequence)

    def rehearse(self, sequence: Sequence) -> None:
        """Begin to follow the sequence of a rehearsal, with which trials cost nothing."""
        self.rehearsal = sequence
        self.open(sequence)

    def follow(self, sequence: Sequence) -> None:
        """Let the predictors follow the sequence's changes."""
        if _is_followed(sequence):
            for source in self._sources:
                source.follow(sequence)

    def predict(
        self,
        batch: Seq[ScheduledRows],
        *,
        spare_rows: int,
        expected_rows: int = 0,
        before_waiting: Callable[[], None] = _nothing,
    ) -> list[Run]:
        """The predictions for decoding rows of the pass that was just scheduled, which has `spare_rows` rows left, of
        them `expected_rows` for tokens that requests expect.

        `before_waiting` is called before any wait for predictions.
        """
        self._step = StepRecord(began=self._clock())  # also without sources, which may have just been removed
        expected = self._expected(batch, expected_rows)
        if not self._sources:
            return expected
        for rows in batch:
            if rows.is_decode and rows.sequence is not self.rehearsal:
                self._regret.join(rows.sequence)
        decoding = [rows for rows in batch if rows.is_decode and _is_followed(rows.sequence)]
        runs = expected
        num_new = sum(len(rows.sequence.texts) * len(token_ids) for rows, token_ids in expected)
        num_rows = sum(rows.num_rows for rows in batch) + num_new
        spare_rows = max(0, spare_rows - num_new)
        prompt_rows = sum(rows.num_rows for rows in batch if not rows.is_decode) + num_new
        self._put_faster_first(decoding, StepSize(num_rows, spare_rows, len(batch) - len(decoding), prompt_rows))
        for source in self._sources:
            unserved = _unserved(source, decoding)
            size = StepSize(num_rows, spare_rows, len(batch) - len(unserved), prompt_rows)
            new = self._predict(source, unserved, size, before_waiting)
            num_new = sum(len(rows.sequence.texts) * len(token_ids) for rows, token_ids in new)
            num_rows, spare_rows, runs = num_rows + num_new, max(0, spare_rows - num_new), runs + new
        self._step.is_disturbed = any(source.is_busy for source in self._sources)
        for rows in decoding:
            if rows.source is None:
                self._explain_none(rows.sequence, spare_rows)
        return runs

    def is_idle(self, batch: Seq[ScheduledRows]) -> bool:
        """Whether nobody wants predictions in the next step either."""
        policies = [rows.sequence.request.speculation for rows in batch]
        if any(policy.expected for policy in policies):
            return False
        return not self._sources or all(policy.mode is SpeculationMode.NEVER for policy in policies)

    def go_on(self) -> None:
        """Begin a step without predictions, whose pass was launched at the end of the last one."""
        self._step = StepRecord(began=self._ended)

    @property
    def drafting(self) -> float:
        """Seconds that an attached drafter has computed for this step."""
        return self._step.drafting

    def withdraw(self, rows: ScheduledRows) -> None:
        """Note that there was no room for the predictions of a sequence."""
        rows.source = None
        self._step.serving.pop(rows.sequence, None)
        if not rows.sequence.speculation.by_source:
            _explain(rows.sequence, NoSpeculation.UNAVAILABLE, "there was no room for predictions")

    def settle(self, rows: ScheduledRows, committed: list[TokenRecord]) -> None:
        """Count a sequence's pass, and let the predictors follow its committed tokens."""
        sequence = rows.sequence
        if committed:
            num_accepted = sum([record.source is not None for record in committed]) if rows.predictions else 0
            sequence.speculation.count(rows.source, len(rows.predictions), num_accepted)
            if (source := self._step.serving.get(sequence)) and not sequence.is_finished:
                source.settle(sequence, len(rows.predictions), num_accepted)
            if num_accepted and is_automatic(sequence):
                self._step.num_accepted[sequence] = num_accepted
        self.follow(sequence)

    def observe(self, batch: Seq[ScheduledRows]) -> None:
        """Let the controllers learn from a step: its time, and the time that predictions saved or lost.

        A pass with expected tokens is as long as one with a prompt, which says nothing of others.
        """
        self._ended = self._clock()
        if not self._sources or any(rows.source is PredictionSource.EXPECTED for rows in batch):
            return
        step = self._step
        computing = self._ended - step.began - step.drafting - sum(rows.waiting for rows in batch)
        only_decodes = all(rows.is_decode for rows in batch)
        if only_decodes and not step.is_disturbed:
            self._passes.observe(sum(rows.num_rows for rows in batch), computing)
        decoding = [rows for rows in batch if rows.is_decode]
        automatic = [rows for rows in decoding if is_automatic(rows.sequence)]
        if not automatic:
            return
        if not (step.serving or step.is_disturbed or any(rows.waiting for rows in automatic)):
            seconds = computing if only_decodes else self._passes.seconds(len(decoding))
            for rows in automatic:
                rows.sequence.speculation.seconds.add(seconds, seconds, 1.0)
            return
        plain, computed, waited = step.seconds(
            automatic, num_decoding=len(decoding), passes=self._passes, computing=computing if only_decodes else 0.0
        )
        taken = computed + waited
        counts = self.rehearsal is None and any(plan.own_speedups for plan in step.plans)
        for rows in automatic:
            saved = (1 + step.num_accepted.get(rows.sequence, 0)) * plain
            self._regret.observe(rows.sequence, taken - min(waited, step.invested) - saved)
            expected = step.expected_speedup(rows.sequence)
            rows.sequence.speculation.seconds.add(taken, saved, expected)
            if counts:
                self.seconds.add(taken, saved, expected)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended or was dropped."""
        self.totals.end(sequence)
        if sequence is self.rehearsal:
            self.rehearsal = None
        if self._sources:
            self._regret.leave(sequence)
        if _is_followed(sequence):
            for source in self._sources:
                source.close(sequence)

    def _expected(self, batch: Seq[ScheduledRows], spare_rows: int) -> list[Run]:
        """The tokens that requests expect."""
        runs: list[Run] = []
        for rows in batch if spare_rows > 0 else ():
            sequence, num_texts = rows.sequence, len(rows.sequence.texts)
            if not (rows.is_decode and sequence.request.speculation.expected):
                continue
            # A row's logits are large, and wait for their reader.
            most = MOST_PREDICTIONS if sequence.request.output.logits else self._most_expected
            if valid := self._valid(sequence, sequence.expected(min(most, spare_rows // num_texts))):
                rows.source = PredictionSource.EXPECTED
                spare_rows -= num_texts * len(valid)
                runs.append((rows, valid))
        return runs

    def _source(self, predictor: Predictor) -> Source:
        if isinstance(predictor, AttachedPredictor):
            return AttachedSource(predictor, self._passes, self._regret, self._config)
        if isinstance(predictor, DraftPredictor):
            return DraftSource(predictor, self._passes, self._regret, self._config)
        return Source(predictor, self._passes, self._regret, self._config)

    def _put_faster_first(self, decoding: Seq[ScheduledRows], size: StepSize) -> None:
        """Where a draft service and an attached drafter compute predictions, let the one be asked first whose plan is
        expected to be faster; compared now and then, since that takes time.
        """
        self._num_steps += 1
        if self._num_steps % _COMPARED_EVERY or not decoding:
            return
        places = [index for index, source in enumerate(self._sources) if source.kind in _COMPUTED]
        rivals = [self._sources[index] for index in places]
        if {source.kind for source in rivals} != _COMPUTED:
            return
        sequences = [rows.sequence for rows in decoding]
        rivals.sort(key=lambda source: -source.best_speedup(sequences, size))
        order = [*self._sources]  # replaced as a whole: other threads read it
        for index, source in zip(places, rivals, strict=True):
            order[index] = source
        self._sources = order

    def _predict(
        self, source: Source, unserved: Seq[ScheduledRows], size: StepSize, before_waiting: Callable[[], None]
    ) -> list[Run]:
        sequences = [rows.sequence for rows in unserved]
        plan = source.plan(sequences, size)
        self._step.plans.append(plan)
        if source.is_due:
            before_waiting()
        predictions = source.predict(sequences, plan)
        self._step.drafting += source.drafting
        asked = [*compress(unserved, plan.lengths)]
        waits = source.kind is PredictionSource.DRAFT
        if asked and waits:
            before_waiting()
        runs: list[Run] = []
        for rows in asked:
            began = self._clock()
            if valid := self._valid(rows.sequence, next(predictions)):
                rows.source, self._step.serving[rows.sequence] = source.kind, source
                runs.append((rows, valid))
            if waits:
                rows.waiting += self._clock() - began
        return runs

    def _explain_none(self, sequence: Sequence, spare_rows: int) -> None:
        """Record the reason if a sequence has had no predictions so far although there was room for them."""
        has_room = min(spare_rows, sequence.num_remaining - 1) > 0
        if sequence.speculation.by_source or not has_room:
            return
        reasons = [
            source.why_none(sequence, plan)
            for source, plan in zip(self._sources, self._step.plans, strict=True)
            if source.serves(sequence)
        ]
        is_slower = any(why_not is NoSpeculation.SLOWER for why_not, _ in reasons)
        why_not = NoSpeculation.SLOWER if is_slower else NoSpeculation.UNAVAILABLE
        _explain(sequence, why_not, "; ".join(dict.fromkeys(detail for _, detail in reasons)))

    def _valid(self, sequence: Sequence, predictions: Iterable[int]) -> list[int]:
        """The predictions before the first that is no token id, or that the request or its grammar forbids."""
        valid: list[int] = []
        allowed = sequence.request.sampling.allowed_tokens
        for token_id in predictions:
            if not 0 <= token_id < self._vocab_size or (allowed is not None and token_id not in allowed):
                break
            valid.append(token_id)
        return valid[: sequence.draw.allowed.grammar.num_allowed(valid)]


def _unserved(source: Source, decoding: Seq[ScheduledRows]) -> list[ScheduledRows]:
    """The source's sequences that no earlier source has served; for the others it rests."""
    unserved = []
    for rows in decoding:
        if rows.source is not None:
            source.rest(rows.sequence)
        elif source.serves(rows.sequence):
            unserved.append(rows)
    return unserved


def _is_allowed(sequence: Sequence) -> bool:
    return sequence.request.speculation.mode is not SpeculationMode.NEVER


def _is_followed(sequence: Sequence) -> bool:
    return _is_allowed(sequence) and not sequence.is_healing


def _explain(sequence: Sequence, why_not: NoSpeculation, detail: str) -> None:
    sequence.speculation.why_not, sequence.speculation.detail = why_not, detail
