"""OutputPipeline: converts one sequence's drawn tokens to its text and events."""

import time
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from copy import copy
from dataclasses import asdict

from services.engine.events import Finished, FinishReason, PassReport, Progress, Refused, Suppressed, TokenRecord
from services.engine.text.tokenizer import Tokenizer
from services.target.output.alternatives import Alternatives
from services.target.output.banned_strings import BannedMatch
from services.target.output.detokenizer import Detokenizer
from services.target.output.loop_detector import LoopDetector
from services.target.output.output_buffer import OutputBuffer, Snapshot
from services.target.output.token_rules import TokenRules
from services.target.sequence.continuation_error import ContinuationError
from services.target.sequence.sequence import Sequence


class OutputPipeline:
    """Appends drawn tokens to the sequence, searches their text for stop and banned strings, holds both back as long as
    they may be taken back, and then puts them into the sequence's stream, finally with the reason for its end.

    `commit` does what the next pass depends on; `write` does the rest, for which that pass need not wait. All of it is
    a pure function of the tokens: a continuation replays the received ones.
    """

    def __init__(self, sequence: Sequence, tokenizer: Tokenizer) -> None:
        """Replays the received tokens as generated, or does so later if the prompt must be healed first.

        Raises ContinuationError if the received tokens are not the generation's.
        """
        self.sequence = sequence
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer.of(sequence.request, tokenizer)
        self._buffer = OutputBuffer()
        stops = sequence.request.stops
        self._takes_back = bool(sequence.request.sampling.banned_strings)
        self._loop = None if stops.loop is None else LoopDetector(**asdict(stops.loop))
        self._decides = self._takes_back or bool(stops.strings or stops.loop)  # whether what is read decides on the end
        self._unread: list[TokenRecord] = []  # their text is not made yet
        self._matched_stop: str | None = None
        self._ends_by_token = True
        self._last_text = ""  # released by the end, not by a token
        if not sequence.is_healing:
            self._replay()

    def report_progress(self, records: Seq[TokenRecord] = (), *, num_new: int = 0) -> None:
        """Report how many tokens before the first drawn one are computed, until that one is drawn.

        `records` are new records of known tokens, and `num_new` counts tokens that are computed but not settled yet.
        """
        sequence = self.sequence
        if sequence.timings.prefilled:
            return
        delivered: tuple[TokenRecord, ...] = ()
        try:
            delivered = sequence.prompt_results.take(records)
        except ContinuationError as error:
            sequence.end = Refused(str(error))
        total = sequence.num_prompt + len(sequence.request.received)
        sequence.stream.put(Progress(sequence.text.num_computed + num_new, total, delivered))

    def commit(self, records: Iterable[TokenRecord], report: PassReport | None = None) -> int:
        """Append drawn tokens up to one that ends the generation; returns how many of them are kept.

        Tokens after one that completes a banned string, or after a wrong mask, were drawn with a wrong history and are
        dropped; a token that heals the prompt is not part of the answer. `report` is that of the pass. Call `write`
        before the next commit and, after an end, once the sequence is final.
        """
        sequence = self.sequence
        if sequence.is_healing:
            self._heal(next(iter(records)))
            return 0
        if not sequence.timings.prefilled:
            sequence.timings.prefilled = time.monotonic()
        num_before = len(sequence.tokens)
        taken = self._push(records)
        sequence.draw.commit(taken)
        if self._detokenizer.banned is not None:
            self._take_back(self._detokenizer.banned)
        kept = taken[: max(0, len(sequence.tokens) - num_before)]
        if report is not None and kept:
            self._buffer.add_report(report.completed(taken, kept), end=sequence.num_generated)
        return len(kept)

    def write(self) -> None:
        """Put all tokens that can no longer be taken back into the stream, with their text and the reports of their
        passes, and then the end if there is one.
        """
        for record in self._unread:
            self._buffer.push(record, self._read(record.token_id), None)
        self._unread.clear()
        if isinstance(end := self.sequence.end, Refused):
            self.sequence.stream.put(end)
            return
        self._deliver()
        if end is not None:
            self.sequence.stream.put(self._finished(end))

    def finish(self, reason: FinishReason) -> None:
        """End the generation without another token; held text is delivered with the end, not with the tokens.

        So a continuation from all tokens still continues the text that these have released.
        """
        if reason is FinishReason.NO_CANDIDATES and not self.sequence.draw.allowed.grammar.may_end:
            reason = FinishReason.GRAMMAR_INCOMPLETE
        self.sequence.end, self._ends_by_token = reason, False

    def expire(self) -> None:
        """End the generation at its time limit or deadline, without the tokens that may still be taken back.

        The committed tokens must have been written.
        """
        sequence, self._ends_by_token = self.sequence, False
        is_deadline = sequence.expires_at == sequence.request.deadline
        sequence.end = FinishReason.DEADLINE if is_deadline else FinishReason.TIME_LIMIT
        self._last_text = self._buffer.text
        sequence.take_back(len(self._buffer))
        self._buffer.drop(end=sequence.num_generated)

    def _heal(self, record: TokenRecord) -> None:
        """Complete the prompt; after this only the first bytes of the text differ from any other generation."""
        sequence, healing = self.sequence, self.sequence.request.healing
        assert healing is not None
        sequence.append(record.token_id)
        self._detokenizer.begin(record.token_id, num_known=healing.num_known)
        if not sequence.prompt_results.is_complete:
            self.report_progress([record], num_new=sequence.num_prompt - 1 - sequence.text.num_computed)
        sequence.draw.heal(sequence.request, sequence.tokens)
        try:
            self._replay()
        except ContinuationError as error:  # the call has begun, so that this is an event
            sequence.end = Refused(str(error))

    def _replay(self) -> None:
        """Append the received tokens; the grammar has followed them already."""
        received, draw = self.sequence.request.received, self.sequence.draw
        grammar = draw.allowed.grammar
        rules = TokenRules(self.sequence.request, self.sequence.tokens) if received else None
        for count, token_id in enumerate(received):
            if self.sequence.is_finished:
                raise ContinuationError(f"the generation ends after {count} tokens, but {len(received)} were received")
            assert rules is not None
            rules.take(token_id)
            self._append(token_id)
            self._read(token_id)
            if grammar.is_rejected and grammar.num_followed == count:
                raise ContinuationError(f"the grammar forbids the token at {count}")
            if self._detokenizer.banned is not None:
                raise ContinuationError(f"token {count} completes a banned string, which the generation does not have")
        if not draw.sampling.feeds_back:  # else FeedbackReplay commits them
            draw.sampling.commit(received)

    def _push(self, records: Iterable[TokenRecord]) -> list[TokenRecord]:
        """Append and buffer drawn tokens, up to one after which the others are invalid."""
        taken: list[TokenRecord] = []
        allowed = self.sequence.draw.allowed
        for record in records:
            if taken and not allowed.grammar.was_mask_right:
                break
            taken.append(record)
            before = self._snapshot() if self._takes_back else None
            self._append(record.token_id)
            if self._decides:
                self._buffer.push(record, self._read(record.token_id), before)
            else:
                self._unread.append(record)
            if self.sequence.is_finished or self._detokenizer.banned is not None:
                break
            allowed.advance(record.token_id)
        return taken

    def _append(self, token_id: int) -> None:
        """Append one token, which ends the generation if it is a stop token or the last for which there is room."""
        sequence, stops = self.sequence, self.sequence.request.stops
        sequence.append(token_id)
        if token_id in stops.token_ids:
            sequence.end = FinishReason.STOP_TOKEN
        elif sequence.num_remaining <= 0:
            is_long = sequence.num_generated >= stops.max_tokens
            sequence.end = FinishReason.MAX_TOKENS if is_long else FinishReason.CONTEXT_LENGTH

    def _read(self, token_id: int) -> str:
        """Return the text that an appended token releases; ends the generation at a stop string and in a loop."""
        sequence, stops, detokenizer = self.sequence, self.sequence.request.stops, self._detokenizer
        if is_stop := token_id in stops.token_ids:
            text, stop = detokenizer.push_stop_token(token_id), None
        else:
            text, stop = detokenizer.push(token_id)
        if detokenizer.banned is not None:
            sequence.end = None  # since the token is taken back
            return ""
        self._matched_stop = stop
        is_loop = self._loop is not None and not is_stop and self._loop.push(token_id)
        if stop is not None:
            sequence.end = FinishReason.STOP_STRING
        elif is_loop and sequence.num_generated >= stops.min_tokens:
            sequence.end = FinishReason.LOOP
        return text

    def _snapshot(self) -> Snapshot:
        """The state before the next token, which may be taken back."""
        return Snapshot(self._detokenizer.fork(), copy(self._loop), self.sequence.draw.allowed.snapshot())

    def _take_back(self, banned: BannedMatch) -> None:
        """Cut the answer within a banned string, forbid the token there, and restore the state before it."""
        sequence = self.sequence
        alternatives = Alternatives(sequence.request, vocab_size=self._tokenizer.vocab_size)
        num_tokens = self._buffer.num_to_take_back(banned.num_tokens, alternatives)
        if num_tokens is None:
            sequence.end = Refused("what follows them completes a banned string that begins in them")
            return
        position = len(sequence.tokens) - num_tokens
        taken = sequence.tokens[position:]
        text = b"".join(map(self._tokenizer.token_bytes, taken)).decode(errors="replace")
        suppressed = Suppressed(text, banned.string, position - sequence.num_prompt, taken[0])
        sequence.take_back(num_tokens)
        self._detokenizer, self._loop, allowed = self._buffer.take_back(num_tokens, suppressed)
        sequence.draw.take_back(allowed, sequence.tokens[sequence.num_prompt :], self._buffer.forbidden)

    def _deliver(self) -> None:
        """Deliver the tokens that can no longer be taken back; at an end all of them, and all text or the last one."""
        sequence = self.sequence
        if not sequence.is_finished:
            chunk = self._buffer.release(self._detokenizer.num_unsafe, end=sequence.num_generated)
        elif self._ends_by_token:
            chunk = self._buffer.release_all(self._detokenizer.finish())
        else:
            chunk = self._buffer.release_all("")
            self._last_text += self._detokenizer.finish()
        if chunk.records or chunk.reports or chunk.suppressed:
            sequence.stream.put(chunk)

    def _finished(self, reason: FinishReason) -> Finished:
        sequence = self.sequence
        sequence.timings.finished = time.monotonic()
        return Finished(
            reason=reason,
            stop_token_id=sequence.tokens[-1] if reason is FinishReason.STOP_TOKEN else None,
            stop_string=self._matched_stop,
            prompt_tokens=sequence.num_prompt,
            completion_tokens=sequence.num_generated,
            cached_tokens=sequence.num_cached,
            preemptions=sequence.num_preemptions,
            timings=sequence.timings,
            speculation=sequence.speculation,
            text=self._last_text,
            embedding=sequence.prompt_results.embedding,
        )
