"""AttachedPredictor: predicts with a drafter that reads the features of its target's passes."""

import math
import time
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from itertools import accumulate
from typing import NamedTuple

from services.engine.cache.block_manager import BlockManager
from services.engine.decoder.native import Batch, Pass, Sampler
from services.engine.events import FollowCounts, PredictionSource
from services.engine.loaded_drafter import LoadedDrafter
from services.engine.request import ANYBODY
from services.target.scheduling.scheduled_rows import ScheduledRows, own_rows
from services.target.sequence.draw_state import MasksAhead
from services.target.sequence.sequence import Sequence
from services.target.speculation.attached.drafter_context import DrafterContext, first_to_read
from services.target.speculation.attached.masked_runs import Mask, MaskedRun, draw_masked
from services.target.speculation.attached.read_blocks import ReadBlocks
from services.target.speculation.link.draft_latency import DraftLatency
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import PredictionRequest

_PARKED_AFTER = 16  # steps in which it could have predicted and was not asked, after which it reads nothing
_READS_AGAIN_AFTER = 2048  # of such steps, so that its predictions can be tried again with a context
_FEWER = 0.75  # times as many sequences as then, with which it reads again: predictions may pay now
_FEWER_FOR = 8  # steps with so few, as a crowd may just begin
_LEAST_CONTEXT = 16  # rows, for a text that it has not read from the beginning
_MOST_TIMED = 16  # rows of a sequence, beyond which reading takes most of the time


class _Place(NamedTuple):
    """The rows of a sequence in the last pass: the first one's index, and its position."""

    row: int
    position: int


class _Run(NamedTuple):
    """A sequence that draws, with its context, the most predictions, and the mask of the first one."""

    sequence: Sequence
    context: DrafterContext
    limit: int
    mask: Mask | None


class AttachedPredictor:
    """A Predictor on the target's own device. Between two passes of the target it reads the features that the first one
    has kept, for all sequences, and draws, in one native call.
    """

    source = PredictionSource.ATTACHED

    def __init__(
        self, drafter: LoadedDrafter, sampler: Sampler, batch: Batch, blocks: BlockManager, config: PolicyConfig
    ) -> None:
        """`batch` has room for the rows of any pass of the target, which has the `blocks`."""
        self.drafter, self.num_predictions = drafter, drafter.num_predictions
        self._sampler, self._batch, self._blocks = sampler, batch, blocks
        # A row has the token after those of its features, whose position counts where it reads the target.
        self._shift = int(drafter.reads_target)
        self._latency = DraftLatency(config, is_flat=drafter.block is not None)
        self._contexts: dict[Sequence, DrafterContext | None] = {}  # of the sequences that it follows
        self._read = ReadBlocks()
        self._results: Pass | None = None  # of the last pass
        self._places: dict[Sequence, _Place] = {}  # in it
        self.drafting = 0.0
        """Seconds that the last `predict` has computed."""
        self._num_unused = 0  # steps since the last request in which it could have predicted, or read nothing
        self._num_parked: float = math.inf  # so many sequences are too many: with them it was not asked any more
        self._num_fewer = 0  # steps in a row with fewer, while it reads nothing

    def see(self, results: Pass, scheduled: Seq[ScheduledRows]) -> None:
        """Note a pass of the target, whose features are read before the next one."""
        self._results = results
        self._places = {
            rows.sequence: _Place(row, rows.sequence.text.num_computed)
            for row, rows in own_rows(scheduled)
            if rows.sequence in self._contexts
        }

    def why_none(self, sequence: Sequence) -> str:
        """The reason for no prediction: it is guided, or the drafter has not read its text."""
        if sequence not in self._contexts:
            return "a drafter does not predict for guided requests"
        return "" if _is_enough(self._next_context(sequence)) else "the drafter has not read the text"

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        """The times as measured, which include that of reading."""
        latency = self._latency
        return PredictionTimes(
            [SequenceTimes()] * len(sequences),
            delay=max(0.0, latency.seconds(1) - latency.each),
            each=latency.each,
            growth=latency.growth,
            is_trusted=latency.is_known,
        )

    def predict(self, requests: Seq[PredictionRequest]) -> Iterator[Seq[int]]:
        """Read the last pass's rows and draw; the predictions are there when it returns."""
        wanted = {each.sequence: each for each in requests if each.length and each.sequence in self._contexts}
        self._note_use(is_wanted=bool(wanted))
        began = time.monotonic()
        drawn = self._read_and_draw(wanted) if self.is_due else {}
        self.drafting = time.monotonic() - began if self.is_due else 0.0
        self._results, self._places = None, {}
        return (drawn.get(request.sequence, ()) for request in requests)

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Follow a new sequence; changes of its text are seen when its rows are read."""
        if sequence.request.draws and len(sequence.texts) == 1:  # else each token depends on two passes
            self._contexts.setdefault(sequence, None)
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        """Forget a sequence that has ended."""
        self._contexts.pop(sequence, None)
        self._places.pop(sequence, None)
        return FollowCounts()

    @property
    def is_due(self) -> bool:
        """Whether there are rows of the last pass to read before the next one."""
        return bool(self._places) and self._is_reading

    @property
    def _is_reading(self) -> bool:
        return self._num_unused <= _PARKED_AFTER

    def _note_use(self, *, is_wanted: bool) -> None:
        count, is_parked = len(self._contexts), not self._is_reading
        has_fewer = bool(self._places) and is_parked and count <= _FEWER * self._num_parked < math.inf
        self._num_fewer = self._num_fewer + 1 if has_fewer else 0
        if self._num_unused > _PARKED_AFTER + _READS_AGAIN_AFTER:
            self._num_unused, self._num_parked = 0, math.inf
        elif is_wanted or self._num_fewer > _FEWER_FOR:
            self._num_unused = 0
            if is_wanted and count >= self._num_parked:
                self._num_parked = math.inf
        elif count >= self._num_parked and not is_parked:  # the crowd is back
            self._num_unused = _PARKED_AFTER + 1
        elif self._could_predict or is_parked:
            self._num_unused += bool(self._places)
            if not is_parked and not self._is_reading:
                self._num_parked = count

    @property
    def _could_predict(self) -> bool:
        """Whether a sequence is decoding, with predictions of any source, and has been read."""
        return any(each.text.num_pending == 1 and _is_enough(self._contexts[each]) for each in self._places)

    def _next_context(self, sequence: Sequence) -> DrafterContext | None:
        """The sequence's context after the last pass's rows; None if rows are missing."""
        context = self._contexts[sequence]
        if (place := self._places.get(sequence)) is None:
            return context
        if self.drafter.reads_target:
            return DrafterContext.of_target(sequence.text, place.position)
        if not self._is_reading:
            return None
        if context is None and place.position >= first_to_read(sequence.text):
            context = self._read.context(sequence.text, place.position)
        return DrafterContext.after(context, sequence.text, place.position)

    def _read_and_draw(self, wanted: dict[Sequence, PredictionRequest]) -> dict[Sequence, Seq[int]]:
        """Runs in which each token decides which may follow it are drawn apart, in several calls."""
        masks = {sequence: sequence.draw.allowed.masks() for sequence in wanted}
        apart = self._masked_apart(wanted, masks)
        drawn: dict[Sequence, Seq[int]] = {}
        for sequences, is_apart in (([each for each in self._places if each not in apart], False), ([*apart], True)):
            began = time.monotonic()
            rows, drawing = self._fill(sequences, wanted)
            if not rows:
                continue
            assert self._results is not None
            self.drafter.decoder.read_features(self._results, rows)
            if not drawing:
                self.drafter.decoder.extend(self._batch, self._sampler, [], [], [])
                self.drafter.device.synchronize()  # else a GPU's time would count as the next pass's
                continue
            limits = [min(wanted[each].length, self._room(context, each)) for each, context in drawing.items()]
            runs = [_Run(*each, limit, masks[each[0]]) for each, limit in zip(drawing.items(), limits, strict=True)]
            tokens, num_steps = self._draw_masked(runs, apart) if is_apart else self._draw(runs, wanted)
            drawn |= zip(drawing, tokens, strict=True)
            if len(rows) <= _MOST_TIMED * len(drawing):
                self._latency.observe(num_steps, time.monotonic() - began, num_sequences=len(drawing))
        return drawn

    def _masked_apart(
        self, wanted: dict[Sequence, PredictionRequest], masks: dict[Sequence, Mask | None]
    ) -> dict[Sequence, MasksAhead]:
        """The sequences whose tokens are masked, and for which a run of several is wanted, the longest first."""
        if self.drafter.block is not None:  # all of its rows are computed before the first draw
            return {}
        longest = sorted(wanted, key=lambda each: -wanted[each].length)
        several = (each for each in longest if masks[each] is not None and wanted[each].length > 1)
        found = ((sequence, sequence.draw.allowed.ahead()) for sequence in several)
        return {sequence: ahead for sequence, ahead in found if ahead is not None}

    def _draw(self, runs: Seq[_Run], wanted: dict[Sequence, PredictionRequest]) -> tuple[list[list[int]], int]:
        """Draw runs in one call, of one token where it is masked; returns them, and how many tokens were computed for
        one.
        """
        self._allow((run.sequence, run.mask) for run in runs)
        counts = [run.limit if run.mask is None else 1 for run in runs]
        chances = [
            wanted[run.sequence].least_chance if count > 1 and self.drafter.ends_early else 0.0
            for run, count in zip(runs, counts, strict=True)
        ]
        states, masks = [run.sequence.draw.sampling for run in runs], [run.mask for run in runs]
        drawn = self.drafter.decoder.extend(
            self._batch, self._sampler, states, [[]] * len(runs), counts, masks, chances
        )
        return drawn, max(counts if self.drafter.block is not None else map(len, drawn))

    def _draw_masked(self, runs: Seq[_Run], apart: dict[Sequence, MasksAhead]) -> tuple[list[list[int]], int]:
        """Draw runs token by token; returns them, and the number of passes."""
        limits = accumulate((run.limit for run in runs), min)
        masked = [
            MaskedRun(run.sequence, run.context.length, run.context.blocks(run.sequence.text), limit, run.mask, ahead)
            for run, limit, ahead in zip(runs, limits, (apart[run.sequence] for run in runs), strict=True)
        ]
        num_steps = draw_masked(
            self.drafter.decoder,
            self._batch,
            self._sampler,
            masked,
            lambda left: self._allow((run.sequence, run.mask) for run in left),
            stays=self.drafter.reads_target,
        )
        return [run.drawn for run in masked], num_steps

    def _allow(self, masks: Iterable[tuple[Sequence, Mask | None]]) -> None:
        """Let tokens be drawn that few others may be drawn beside; private texts leave nothing on the shortlist."""
        if self.drafter.shortlist is not None:
            self.drafter.shortlist.allow(mask for each, mask in masks if each.text.cache_scope == ANYBODY)

    def _room(self, context: DrafterContext, sequence: Sequence) -> int:
        """The most predictions for whose rows there are blocks, and which the drafter makes in a step."""
        room, block = context.room(sequence.text), self.drafter.block
        return room if block is None else min(room - block.further_rows, block.most_predictions)

    def _fill(
        self, sequences: Iterable[Sequence], wanted: dict[Sequence, PredictionRequest]
    ) -> tuple[list[int], dict[Sequence, DrafterContext]]:
        """Fill the batch with all rows of these sequences to read; returns their indices in the target's pass, and the
        sequences that draw from their last row with their contexts, in the batch's order.
        """
        self._batch.clear()
        rows: list[int] = []
        drawing: dict[Sequence, DrafterContext] = {}
        texts: list[tuple[Seq[int], str | None]] = []
        for sequence in sequences:
            if (place := self._places.get(sequence)) is None:
                continue
            text = sequence.text
            self._contexts[sequence] = context = self._next_context(sequence)
            if context is None or (first := self._first_row(context, place)) >= context.end:
                continue
            draws = sequence in wanted and context.end == len(text.tokens) - 1
            if self.drafter.reads_target and not draws:
                continue
            if draws:  # the target's pass needs these blocks too; what it does not use is taken back after it
                self._blocks.grow_together([(text, len(text.tokens) + wanted[sequence].length)])
                draws = self._room(context, sequence) > 0
            token_ids = text.tokens[first + 1 : context.end + 1]
            texts.append((token_ids, text.cache_scope))
            self._batch.append(
                token_ids,
                position=first - context.start + self._shift,
                blocks=context.blocks(text),
                num_logits=int(draws),
            )
            index = place.row + first - place.position
            rows += range(index, index + context.end - first)
            self._read.note(context, text, first)
            if draws:
                drawing[sequence] = context
        if self.drafter.shortlist is not None:
            self.drafter.shortlist.note(texts)
        return rows, drawing

    def _first_row(self, context: DrafterContext, place: _Place) -> int:
        """The first row to read: the last one alone, if the drafter reads its target."""
        return context.end - 1 if self.drafter.reads_target else max(place.position, context.start)


def _is_enough(context: DrafterContext | None) -> bool:
    return context is not None and (not context.start or context.length >= _LEAST_CONTEXT)
