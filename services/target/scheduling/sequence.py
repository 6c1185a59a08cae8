"""Sequence: one generation's state, from its prompt to its last token."""

import time
from collections.abc import Iterable
from collections.abc import Sequence as Records
from copy import copy
from dataclasses import asdict

from services.engine.events import (
    Failed,
    Finished,
    FinishReason,
    PassReport,
    Progress,
    Refused,
    SpeculationStats,
    Suppressed,
    Timings,
    TokenRecord,
)
from services.engine.request import OutputOptions, Request
from services.engine.sampling_state import new_healing_state, new_request_state
from services.target.output.banned_strings import BannedMatch
from services.target.output.held_tokens import Checkpoint, HeldTokens
from services.target.output.loop_detector import LoopDetector
from services.target.output.output_text import OutputText
from services.target.output.token_masks import Choices
from services.target.output.token_stream import TokenStream
from services.target.scheduling.expiry import Expiry
from services.target.scheduling.prompt_records import PromptRecords


class Sequence:
    """The tokens of one request, how far they are computed, and where its events go.

    Only the scheduler and its block manager change `num_computed` and `blocks`; only `commit` changes the tokens.
    """

    def __init__(
        self,
        request: Request,
        text: OutputText,
        stream: TokenStream,
        *,
        context_length: int,
        first_sample: "Sequence | None" = None,
    ) -> None:
        """Replay `request.received` as generated, if need be once the prompt is healed.

        `first_sample` computes the same prompt, and this sequence may share it. Raises ValueError where the received
        tokens go on beyond the generation's end.
        """
        self.request = request
        self.first_sample = first_sample
        self.tokens = list(request.prompt)
        self.num_computed = 0  # leading tokens whose keys and values are in the cache
        self.blocks: list[int] = []
        self.num_cached = 0  # tokens that were found in the cache at first
        self.num_preemptions = 0
        self.timings = Timings(arrived=time.monotonic())
        self.speculation = SpeculationStats()
        self.finish_reason: FinishReason | None = None
        self.expiry = Expiry.of(request, arrived=self.timings.arrived)
        self._text = text
        self._held = HeldTokens()
        self._last_text = ""  # that no last token has released
        self._stream = stream
        self._context_length = context_length
        self._loop = None if request.stops.loop is None else LoopDetector(**asdict(request.stops.loop))
        self._matched_stop: str | None = None
        self._refusal: Refused | None = None
        self.prompt_records = PromptRecords.of(request)
        self.choices = Choices(request, vocab_size=text.vocab_size)
        if request.healing is None:
            self.sampling = new_request_state(request, self.tokens)
            self._replay(request.received)
        else:
            self.tokens.pop()
            self.sampling = new_healing_state(
                request.sampling, prompt=request.prompt, healing=request.healing, output=self.output
            )

    @property
    def cache_scope(self) -> str | None:
        """As `CachePolicy.scope`."""
        return self.request.cache.scope

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)

    @property
    def num_generated(self) -> int:
        """Tokens drawn so far, those of an earlier stream included."""
        return len(self.request.received) if self.is_healing else len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn: 1 while decoding."""
        return len(self.tokens) - self.num_computed

    @property
    def num_remaining(self) -> int:
        """Tokens that can still be drawn before a limit ends the generation."""
        limit = min(self.num_prompt + self.request.stops.max_tokens, self._context_length)
        return limit - len(self.tokens)

    @property
    def is_healing(self) -> bool:
        """Whether the next token to be drawn is the last one of the prompt."""
        return len(self.tokens) < self.num_prompt

    @property
    def output(self) -> OutputOptions:
        """What is to be told of the next token."""
        if not self.is_healing:
            return self.request.output
        return OutputOptions() if self.prompt_records is None else self.prompt_records.output

    @property
    def is_telling(self) -> bool:
        """Whether there are tokens of the prompt whose records are asked and have not been delivered."""
        return self.prompt_records is not None and not self.prompt_records.is_complete

    @property
    def is_finished(self) -> bool:
        """Whether the generation has ended."""
        return self.finish_reason is not None or self._refusal is not None

    @property
    def is_paused(self) -> bool:
        """Whether its consumer has fallen so far behind that no more may be drawn for now."""
        return self._stream.is_full

    def untold(self, num_rows: int) -> list[int]:
        """The tokens of the prompt that the next rows are to tell of."""
        if self.prompt_records is None:
            return []
        return self.prompt_records.untold(self.tokens, self.num_computed, num_rows)

    def report_progress(self, told: Records[TokenRecord] = (), *, num_new: int = 0) -> None:
        """Tell a consumer who waits for the first token how much of what comes before it is computed.

        `told` are the records of the prompt's tokens that came of it, and `num_new` counts tokens that are computed
        but not settled yet.
        """
        if not self.timings.prefilled:
            records = () if self.prompt_records is None else self.prompt_records.take(told, self.tokens)
            total = self.num_prompt + len(self.request.received)
            self._stream.put(Progress(self.num_computed + num_new, total, records))

    def commit(self, records: Iterable[TokenRecord], report: PassReport | None = None) -> int:
        """Append drawn tokens up to one that ends the generation, and say how many of them stay.

        Behind one that completes a banned string, or a wrong mask, what was drawn saw a history that is none. What can
        no longer be taken back is delivered, with the report of the pass completed; what heals the prompt is none of
        it. The caller follows an end with `deliver_end`, once nothing of the sequence changes any more.
        """
        if self.is_healing:
            self._heal(next(iter(records)))
            return 0
        if not self.timings.prefilled:
            self.timings.prefilled = time.monotonic()
        num_before, grammar = len(self.tokens), self.choices.grammar
        taken: list[TokenRecord] = []
        for record in records:
            if taken and grammar is not None and not grammar.was_foreseen:
                break
            taken.append(record)
            before = self._checkpoint()
            self._held.push(record, self._append(record.token_id), before)
            if self.is_finished or self._text.banned is not None:
                break
            if grammar is not None:
                grammar.advance([record.token_id])
        self.sampling.commit([record.token_id for record in taken])
        if self._text.banned is not None:
            self._take_back(self._text.banned)
        kept = taken[: max(0, len(self.tokens) - num_before)]
        if report is not None and kept:
            self._held.report(report.completed(kept))
        self._deliver(self._text.finish() if self.is_finished else "")
        return len(kept)

    def finish(self, reason: FinishReason) -> None:
        """End the generation without another token: held text goes with the end, not with the tokens.

        So the text of all tokens is still what a continuation from them goes on from.
        """
        self.finish_reason = reason
        self._deliver()
        self._last_text = self._text.finish()

    def expire(self) -> None:
        """End the generation because its time is over; tokens that might have been taken back are none of it."""
        self.finish_reason = self.expiry.reason
        self._last_text = self._held.text + self._text.finish()
        del self.tokens[len(self.tokens) - len(self._held) :]

    def deliver_end(self) -> None:
        """Tell the consumer that the generation has ended, after all of its text and tokens."""
        self._stream.put(self._refusal or self._finished())

    def fail(self, message: str) -> None:
        """Tell the consumer that this engine cannot go on."""
        self._stream.put(Failed(message))

    def _heal(self, record: TokenRecord) -> None:
        """Complete the prompt; from here on, all is as after any other prompt but for the first bytes of the text."""
        assert self.request.healing is not None
        self.tokens.append(record.token_id)
        self._text.begin(record.token_id, num_known=self.request.healing.num_known)
        if self.is_telling:
            self.report_progress([record], num_new=self.num_prompt - 1 - self.num_computed)
        self.sampling = new_request_state(self.request, self.tokens)
        try:
            self._replay(self.request.received)
        except ValueError as error:  # too late for an error of the call
            self._refusal = Refused(str(error))

    def _checkpoint(self) -> Checkpoint | None:
        """What is known before the next token, where it may have to be taken back."""
        if not self.request.sampling.banned_strings:
            return None
        return Checkpoint(self._text.fork(), copy(self._loop), self.choices.grammar and self.choices.grammar.fork())

    def _take_back(self, banned: BannedMatch) -> None:
        """Cut the answer in a banned string, and forbid the token there; all that goes with them follows."""
        if (num_tokens := self._held.num_cut(banned.num_tokens, self.choices, end=self.num_generated)) is None:
            self._refusal = Refused("what follows them completes a banned string that begins in them")
            return
        position = len(self.tokens) - num_tokens
        taken = self.tokens[position:]
        suppressed = Suppressed(self._text.spell(taken), banned.string, position - self.num_prompt, taken[0])
        del self.tokens[position:]
        self._text, self._loop, self.choices.grammar = self._held.take_back(num_tokens, suppressed)
        self.sampling.truncate(self.num_generated)
        self.sampling.forbid(self._held.forbidden)

    def _deliver(self, last_text: str = "") -> None:
        """Deliver what can no longer be taken back: all, at an end."""
        if self._refusal is not None:
            return
        if self.is_finished:
            chunk = self._held.release_all(last_text)
        else:
            chunk = self._held.release(self._text.num_unsafe, end=self.num_generated)
        if chunk.records or chunk.suppressed:
            self._stream.put(chunk)

    def _replay(self, received: tuple[int, ...]) -> None:
        for count, token_id in enumerate(received):
            if self.is_finished:
                raise ValueError(f"the generation ends after {count} tokens, but {len(received)} were received")
            self._append(token_id)
            if objection := self.choices.objection(count, token_id):
                raise ValueError(f"{objection} the token at {count}")
            if self._text.banned is not None:
                raise ValueError(f"token {count} completes a banned string, which the generation does not have")
        self.sampling.commit(received)

    def _append(self, token_id: int) -> str:
        """Add one token and return the text it releases; sets the finish reason where it is the last."""
        self.tokens.append(token_id)
        stops = self.request.stops
        is_stop = token_id in stops.token_ids
        text, stop = (self._text.push_stop_token(token_id), None) if is_stop else self._text.push(token_id)
        if self._text.banned is not None:
            return ""
        self._matched_stop = stop
        is_loop = self._loop is not None and not is_stop and self._loop.push(token_id)
        if is_stop:
            self.finish_reason = FinishReason.STOP_TOKEN
        elif stop is not None:
            self.finish_reason = FinishReason.STOP_STRING
        elif is_loop and self.num_generated >= stops.min_tokens:
            self.finish_reason = FinishReason.LOOP
        elif self.num_generated >= stops.max_tokens:
            self.finish_reason = FinishReason.MAX_TOKENS
        elif len(self.tokens) >= self._context_length:
            self.finish_reason = FinishReason.CONTEXT_LENGTH
        return text

    def _finished(self) -> Finished:
        self.timings.finished = time.monotonic()
        assert self.finish_reason is not None
        return Finished(
            reason=self.finish_reason,
            stop_token_id=self.tokens[-1] if self.finish_reason is FinishReason.STOP_TOKEN else None,
            stop_string=self._matched_stop,
            prompt_tokens=self.num_prompt,
            completion_tokens=self.num_generated,
            cached_tokens=self.num_cached,
            preemptions=self.num_preemptions,
            timings=self.timings,
            speculation=self.speculation,
            text=self._last_text,
        )
