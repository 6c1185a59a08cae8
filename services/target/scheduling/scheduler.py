"""Scheduler: continuous batching; chooses the rows of all sequences that the next pass computes."""

import math
import time
from bisect import insort

from services.engine.cache.block_manager import BlockManager, Lengths
from services.engine.events import FinishReason, PredictionSource, Scheduled
from services.target.scheduling.fair_queue import FairQueue
from services.target.scheduling.fair_shares import FairShares
from services.target.scheduling.limits import SchedulerConfig, StepLimit
from services.target.scheduling.prompt_pace import PromptPace
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence

_MAX_PROMPT_LOGITS = 256  # rows in one pass; each takes 0.6 MB with a vocabulary of 150 000 tokens


class Scheduler:
    """Holds waiting and running sequences, and divides the KV blocks among them.

    Waiting sequences are started in the order of a FairQueue, and callers share prompt rows fairly too. When blocks run
    out a running sequence is preempted, a paused one if there is one, else the one that was started last: its blocks
    are freed, and later, before new sequences are started, it is recomputed from its tokens, except for those still in
    the prefix cache. By row invariance this gives the same bits. A paused sequence is also preempted for a waiting one.
    """

    def __init__(self, config: SchedulerConfig, blocks: BlockManager) -> None:
        self._config = config
        self._blocks = blocks
        self._spare_rows = 0
        self._queue = FairQueue()
        self._preempted: list[Sequence] = []  # in the order of their starts, like the running ones
        self._prompt_shares = FairShares()
        self._pace = PromptPace(config.prompt_slowdown)
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self.num_rows = self.num_prediction_rows = 0  # of all passes: rows of tokens, and of predictions
        self.num_steps = dict.fromkeys(StepLimit, 0)  # by their limits

    @property
    def waiting(self) -> list[Sequence]:
        """The sequences that do not run, preempted ones first."""
        return [*self._preempted, *self._queue]

    @property
    def sequences(self) -> list[Sequence]:
        """All unfinished sequences, running ones first."""
        return [*self.running, *self.waiting]

    @property
    def spare_rows(self) -> int:
        """The rows left in the pass that was scheduled last."""
        return self._spare_rows

    def expected_rows(self, batch: list[ScheduledRows]) -> int:
        """The rows left for tokens that requests of the pass expect; they count as those of prompts."""
        decoding = [bool(rows.sequence.expected(1)) for rows in batch if rows.is_decode]
        num_expecting, num_prompts = sum(decoding), len(batch) - len(decoding)
        if not num_expecting:
            return 0
        most = self._pace.most_rows(len(decoding) - num_expecting, num_expecting + num_prompts)
        prompt_rows = sum(rows.num_rows for rows in batch if not rows.is_decode)
        return max(0, int(min(self._spare_rows, _MAX_PROMPT_LOGITS, most - prompt_rows)))

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        self._queue.add(sequence)

    def remove(self, sequence: Sequence) -> bool:
        """Forget a sequence and free its blocks, except those that it pins; False if it was not here."""
        for started in (self.running, self._preempted):
            if sequence in started:
                started.remove(sequence)
                is_pinned = sequence.request.pins and sequence.end is FinishReason.MAX_TOKENS  # for a session
                for text in sequence.texts:
                    if is_pinned:
                        self._blocks.pin(text)
                    else:
                        self._blocks.shrink(text, 0)
                return True
        return self._queue.remove(sequence)

    def expired(self) -> list[Sequence]:
        """The sequences whose time limit or deadline has passed."""
        now = time.monotonic()
        return [sequence for sequence in self.sequences if now >= sequence.expires_at]

    def next_expiry(self) -> float:
        """When the next sequence expires, in seconds on the monotonic clock; infinity if none does.

        Paused sequences, which give no other work, must end then too.
        """
        return min((sequence.expires_at for sequence in self.sequences), default=math.inf)

    def schedule(self) -> list[ScheduledRows]:
        """Choose the rows of the next pass within the row budget; empty if there is nothing to do."""
        self._admit()
        batch: list[ScheduledRows] = []
        ready = [sequence for sequence in self.running if not sequence.is_paused]
        prompts = [sequence for sequence in ready if not _is_decoding(sequence)]
        self._spare_rows = self._config.max_rows
        prompt_rows = self._share_rows(prompts, self._most_prompt_rows(ready, prompts))
        num_preempted = self.num_preemptions
        for sequence in ready:
            num_rows = prompt_rows.get(sequence, len(sequence.texts))
            was_preempted = self.num_preemptions > num_preempted and sequence not in self.running  # by an older one
            if num_rows <= 0 or was_preempted:
                continue
            num_tokens, num_negative = runs = _split(sequence, num_rows)
            lengths = [(text, text.num_computed + run) for text, run in zip(sequence.texts, runs, strict=False)]
            if self._make_room(sequence, lengths):
                for text, run in zip(sequence.texts, runs, strict=False):
                    self._blocks.plan_checkpoint(text, run, is_prompt=text.num_pending > 1)
                draws = sequence.request.draws and num_rows == sequence.num_pending
                targets = sequence.prompt_results.targets(sequence.text.num_computed, num_tokens)
                rows = ScheduledRows(sequence, num_tokens, draws, num_negative, targets)
                batch.append(rows)
                self._spare_rows -= rows.num_rows
        if batch:
            self.num_rows += self._config.max_rows - self._spare_rows
            self.num_steps[self._limit(batch)] += 1
        return batch

    def schedule_next(self, batch: list[ScheduledRows]) -> list[ScheduledRows]:
        """Choose the rows of the pass after `batch`'s, as far as they do not depend on what this one draws; none if
        they do, or if there is something else to do.

        Each sequence has a row for its next token, unless it draws its last one now.
        """
        others = {*self.running} - {rows.sequence for rows in batch}
        could_run = any(not sequence.is_paused for sequence in others) or (self._has_place() and self.waiting)
        if could_run or self._blocks.has_states or not all(map(_draws_one, batch)):
            return []
        going_on = [rows for rows in batch if rows.sequence.num_remaining > 1]
        ends = [(rows.sequence.text, rows.sequence.text.num_computed + rows.num_tokens + 1) for rows in going_on]
        if not self._blocks.grow_together(ends):
            return []
        return [
            ScheduledRows(rows.sequence, 1, draws=True, position=length - 1)
            for rows, (_, length) in zip(going_on, ends, strict=True)
        ]

    def go_on(self, batch: list[ScheduledRows]) -> list[ScheduledRows]:
        """Take up the rows of `schedule_next`, now that the tokens before them are committed.

        The others become void: their sequences have ended, are paused, or have taken tokens back.
        """
        running = {*self.running}
        for rows in batch:
            sequence = rows.sequence
            is_next = sequence.text.num_computed == rows.position and _is_decoding(sequence)
            rows.is_void = not (sequence in running and is_next) or sequence.is_paused
        going_on = [rows for rows in batch if not rows.is_void]
        if going_on:
            self._spare_rows = self._config.max_rows - len(batch)
            self.num_rows += len(batch)
            self.num_steps[self._limit(going_on)] += 1
        return going_on

    def _most_prompt_rows(self, ready: list[Sequence], prompts: list[Sequence]) -> int:
        most = self._config.max_rows - _num_texts(ready) + _num_texts(prompts)
        return int(min(most, self._pace.most_rows(len(ready) - len(prompts), len(prompts))))

    def observe(self, batch: list[ScheduledRows], seconds: float) -> None:
        """Learn from a pass over `batch` that took `seconds`."""
        decode_rows = prompt_rows = 0
        for rows in batch:
            if rows.is_decode and rows.source is not PredictionSource.EXPECTED:
                decode_rows += rows.num_rows
            else:
                prompt_rows += rows.num_rows
        self._pace.observe(decode_rows, prompt_rows, seconds)

    def _share_rows(self, prompts: list[Sequence], num_rows: int) -> dict[Sequence, int]:
        """Divide rows among sequences that have more than one to compute: each gets a chunk, and callers take turns."""
        shared = dict.fromkeys(prompts, 0)
        callers: dict[str, list[Sequence]] = {}
        for sequence in prompts:
            callers.setdefault(sequence.request.share.caller, []).append(sequence)
        is_shared = len(callers) > 1
        if is_shared:
            weights = {caller: own[0].request.share.weight for caller, own in callers.items()}
            self._prompt_shares.set_callers(weights)
        logits_budget = _MAX_PROMPT_LOGITS
        while callers and num_rows > 0:
            caller = self._prompt_shares.next(callers) if is_shared else next(iter(callers))
            sequence = callers[caller].pop(0)
            if not callers[caller]:
                del callers[caller]
            most = min(self._config.prefill_chunk, num_rows)
            work, first_row = sequence.prompt_results, sequence.text.num_computed
            if work.targets(first_row, most):
                most = min(most, logits_budget)
            shared[sequence] = min(self._num_prompt_rows(sequence), most)
            num_rows -= shared[sequence]
            logits_budget -= len(work.targets(first_row, _split(sequence, shared[sequence])[0]))
            if is_shared:
                self._prompt_shares.charge(caller, shared[sequence])
        return shared

    def add_predictions(self, rows: ScheduledRows, predictions: list[int]) -> None:
        """Put predictions after a decoding run, as many as fit into the pass's spare rows and free blocks: no sequence
        is preempted for them.
        """
        sequence, num_texts = rows.sequence, len(rows.sequence.texts)
        predictions = predictions[: self._spare_rows // num_texts]
        while predictions and not self._blocks.grow_together(_lengths(sequence, len(predictions))):
            predictions = predictions[:-1]
        self._spare_rows -= num_texts * len(predictions)
        self.num_prediction_rows += num_texts * len(predictions)
        rows.predictions = predictions

    def settle(self, rows: ScheduledRows, num_committed: int) -> None:
        """Count the rows of a sequence's committed tokens as computed, and free the blocks after its tokens.

        If tokens were taken back, the last one that is left is computed again, since the next draw needs its row.
        """
        sequence = rows.sequence
        accepted_rows = max(num_committed - 1, 0)
        for text, num_tokens in zip(sequence.texts, (rows.num_tokens, rows.num_negative), strict=False):
            text.settle(text.num_computed + num_tokens, accepted_rows)
            self._blocks.keep(text, text.num_computed)
            self._blocks.shrink(text, len(text.tokens))
            if not sequence.is_finished:
                self._blocks.restart_if_rewound(text)
        self._queue.charge(sequence, num_committed)

    def _limit(self, batch: list[ScheduledRows]) -> StepLimit:
        if not self._spare_rows:
            return StepLimit.ROWS
        first = next((sequence for sequence in self.waiting if not sequence.is_paused), None)
        if first is not None:
            return StepLimit.BLOCKS if self._fits_in(first) else StepLimit.SEQUENCES
        chunks = [rows for rows in batch if not rows.draws]
        unfinished = [rows.num_rows for rows in chunks if rows.num_rows < rows.sequence.num_pending]
        if not unfinished:
            return StepLimit.WORK
        return StepLimit.PREFILL_CHUNK if max(unfinished) >= self._config.prefill_chunk else StepLimit.PROMPT_ROWS

    def _admit(self) -> None:
        for sequence in [sequence for sequence in self._preempted if not sequence.is_paused]:
            if not self._start(sequence):
                return
            self._preempted.remove(sequence)
        while self._has_place() and (first := self._queue.first(self._is_ready)) and self._start(first):
            self._queue.take(first)

    def _has_place(self) -> bool:
        return len(self.running) < self._config.max_sequences or self._youngest_paused() is not None

    def _is_ready(self, sequence: Sequence) -> bool:
        """Whether a sequence does not have to wait until its first sample has computed their prompt."""
        first = self._first_sample(sequence)
        return first is None or _has_shared(first)

    def _start(self, sequence: Sequence) -> bool:
        """Start a sequence if there is room, or if a paused one can be preempted; False if not."""
        while not self._claim(sequence):
            if (victim := self._youngest_paused()) is None:
                return False
            self._preempt(victim)
        for text, num_tokens in _lengths(sequence, 0):
            self._blocks.grow(text, num_tokens)
        if not sequence.timings.scheduled:
            sequence.timings.scheduled = time.monotonic()
            sequence.num_cached = sequence.text.num_computed
            sequence.stream.put(Scheduled(sequence.num_cached, sequence.timings.scheduled))
        insort(self.running, sequence, key=_start_time)
        return True

    def _claim(self, sequence: Sequence) -> bool:
        """Give a sequence its cached blocks; False if no sequence may be added, or if its other tokens do not fit."""
        if not self._fits_in(sequence):
            return False
        if (first := self._first_sample(sequence)) is not None:
            for text, other, num_shared in zip(sequence.texts, first.texts, sequence.num_shared, strict=True):
                self._blocks.share(text, other, num_shared)
        else:
            self._blocks.reuse(sequence.text, sequence.prompt_results.num_reusable)
            for text in sequence.texts[1:]:
                self._blocks.reuse(text)
        if self._blocks.can_grow_together(_lengths(sequence, int(sequence.request.draws))):
            return True
        self._release(sequence)
        return False

    def _fits_in(self, sequence: Sequence) -> bool:
        return _num_texts(self.running) + len(sequence.texts) <= self._config.max_sequences

    def _first_sample(self, sequence: Sequence) -> Sequence | None:
        """The running sequence that computes the prompt of a new one; a state cannot be shared."""
        first = None if self._blocks.has_states else sequence.first_sample
        return first if first in self.running and not sequence.timings.scheduled else None

    def _num_prompt_rows(self, sequence: Sequence) -> int:
        """The rows that a prefilling sequence can compute next: those that are needed, or, while other samples wait for
        it, only those that they share.
        """
        if self._is_awaited(sequence):
            return sum(max(0, num_tokens) for num_tokens in _num_unshared(sequence))
        num_later = len(sequence.tokens) - sequence.prompt_results.num_needed
        return sequence.num_pending - num_later

    def _is_awaited(self, sequence: Sequence) -> bool:
        """Whether other samples wait until the sequence has computed the shared prompt."""
        is_first = sequence.request.num_samples > 1 and not _has_shared(sequence)
        return is_first and any(self._first_sample(other) is sequence for other in self._queue)

    def _youngest_paused(self) -> Sequence | None:
        return next((sequence for sequence in reversed(self.running) if sequence.is_paused), None)

    def _make_room(self, sequence: Sequence, lengths: Lengths) -> bool:
        """Allocate blocks for a sequence's texts, preempting others if necessary; False if it was preempted itself."""
        while not self._blocks.grow_together(lengths):
            victim = self._youngest_paused() or self.running[-1]
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _release(self, sequence: Sequence) -> None:
        for text in sequence.texts:
            self._blocks.release(text)

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._release(sequence)
        sequence.num_preemptions += 1
        self.num_preemptions += 1
        insort(self._preempted, sequence, key=_start_time)


def _draws_one(rows: ScheduledRows) -> bool:
    """Whether the sequence draws one token, and then needs that token's row only."""
    sequence = rows.sequence
    return rows.draws and not rows.predictions and len(sequence.texts) == 1 and not sequence.is_healing


def _num_texts(sequences: list[Sequence]) -> int:
    return sum(len(sequence.texts) for sequence in sequences)


def _is_decoding(sequence: Sequence) -> bool:
    """Whether only the last token is still to be computed."""
    return sequence.num_pending == len(sequence.texts)


def _has_shared(sequence: Sequence) -> bool:
    """Whether all tokens that further samples share are computed."""
    return all(num_tokens <= 0 for num_tokens in _num_unshared(sequence))


def _num_unshared(sequence: Sequence) -> list[int]:
    """How many of the tokens that further samples share are still to be computed, of each text."""
    pairs = zip(sequence.texts, sequence.num_shared, strict=True)
    return [num_shared - text.num_computed for text, num_shared in pairs]


def _split(sequence: Sequence, num_rows: int) -> tuple[int, int]:
    """Divide at most `num_rows` next rows between the sequence's own text and the negative one.

    The texts' last tokens wait for each other, so that their logits come from one pass.
    """
    own = sequence.text.num_pending
    negative = sequence.num_pending - own
    if num_rows == own + negative:
        return own, negative
    num_negative = min(num_rows, max(negative - 1, 0))
    return min(num_rows - num_negative, own - 1), num_negative


def _lengths(sequence: Sequence, num_further: int) -> Lengths:
    """The length of each text with `num_further` more tokens."""
    return [(text, len(text.tokens) + num_further) for text in sequence.texts]


def _start_time(sequence: Sequence) -> float:
    return sequence.timings.scheduled
