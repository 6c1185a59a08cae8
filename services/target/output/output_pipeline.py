"""OutputPipeline: converts one sequence's drawn tokens to its text and events."""

import time
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from copy import copy
from dataclasses import asdict

from services.engine.events import Chunk, Finished, FinishReason, PassReport, Progress, Refused, Suppressed, TokenRecord
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

    All of it is a pure function of the tokens: a continuation replays the received ones.
    """

    def __init__(self, sequence: Sequence, tokenizer: Tokenizer) -> None:
        """Replays the received tokens as generated, or does so later if the prompt must be healed first.

        Raises ContinuationError if the received tokens are not the generation's.
        """
        self.sequence = sequence
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer.of(sequence.request, tokenizer)
        self._buffer = OutputBuffer()
        self._takes_back = bool(sequence.request.sampling.banned_strings)
        loop = sequence.request.stops.loop
        self._loop = None if loop is None else LoopDetector(**asdict(loop))
        self._matched_stop: str | None = None
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
        dropped. Tokens that can no longer be taken back are delivered, with the completed report of the pass; a token
        that heals the prompt is not. After an end, the caller calls `deliver_end` once the sequence is final.
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
        self._deliver(self._detokenizer.finish() if sequence.is_finished else "")
        return len(kept)

    def finish(self, reason: FinishReason) -> None:
        """End the generation without another token; held text is delivered with the end, not with the tokens.

        So a continuation from all tokens still continues the text that these have released.
        """
        if reason is FinishReason.NO_CANDIDATES and not self.sequence.draw.allowed.grammar.may_end:
            reason = FinishReason.GRAMMAR_INCOMPLETE
        self.sequence.end = reason
        self._deliver()
        self._last_text = self._detokenizer.finish()

    def expire(self) -> None:
        """End the generation at its time limit or deadline, without the tokens that may still be taken back."""
        sequence = self.sequence
        is_deadline = sequence.expires_at == sequence.request.deadline
        sequence.end = FinishReason.DEADLINE if is_deadline else FinishReason.TIME_LIMIT
        self._last_text = self._buffer.text + self._detokenizer.finish()
        sequence.take_back(len(self._buffer))
        if reports := self._buffer.end_reports(end=sequence.num_generated):
            sequence.stream.put(Chunk("", (), reports))

    def deliver_end(self) -> None:
        """Put the end of the generation into the stream, after all of its text and tokens."""
        end = self.sequence.end
        assert end is not None
        self.sequence.stream.put(end if isinstance(end, Refused) else self._finished(end))

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
            self._buffer.push(record, self._append(record.token_id), before)
            if self.sequence.is_finished or self._detokenizer.banned is not None:
                break
            allowed.advance(record.token_id)
        return taken

    def _append(self, token_id: int) -> str:
        """Append one token and return the text that it releases; ends the generation if the token is the last one."""
        self.sequence.append(token_id)
        is_stop = token_id in self.sequence.request.stops.token_ids
        detokenizer = self._detokenizer
        text, stop = (detokenizer.push_stop_token(token_id), None) if is_stop else detokenizer.push(token_id)
        if detokenizer.banned is not None:
            return ""
        self._matched_stop = stop
        is_loop = self._loop is not None and not is_stop and self._loop.push(token_id)
        self.sequence.end = self._reason_to_stop(is_stop_token=is_stop, is_loop=is_loop)
        return text

    def _reason_to_stop(self, *, is_stop_token: bool, is_loop: bool) -> FinishReason | None:
        """Why the last token ends the generation, if it does."""
        sequence, stops = self.sequence, self.sequence.request.stops
        if is_stop_token:
            return FinishReason.STOP_TOKEN
        if self._matched_stop is not None:
            return FinishReason.STOP_STRING
        if is_loop and sequence.num_generated >= stops.min_tokens:
            return FinishReason.LOOP
        if sequence.num_remaining > 0:
            return None
        return FinishReason.MAX_TOKENS if sequence.num_generated >= stops.max_tokens else FinishReason.CONTEXT_LENGTH

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

    def _deliver(self, last_text: str = "") -> None:
        """Deliver the tokens that can no longer be taken back; at an end, all of them."""
        sequence = self.sequence
        if isinstance(sequence.end, Refused):
            return
        if sequence.is_finished:
            chunk = self._buffer.release_all(last_text)
        else:
            chunk = self._buffer.release(self._detokenizer.num_unsafe, end=sequence.num_generated)
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
