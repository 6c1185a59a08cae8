"""Sequence: one generation's state, from its prompt to its last token."""

import time
from collections.abc import Iterable
from dataclasses import replace

from services.engine.events import (
    Chunk,
    Failed,
    Finished,
    FinishReason,
    PassReport,
    Progress,
    SpeculationStats,
    Timings,
    TokenRecord,
)
from services.engine.output_text import OutputText
from services.engine.request import Request
from services.engine.sampling_state import new_sampling_state
from services.engine.token_stream import TokenStream


class Sequence:
    """The tokens of one request, how far they are computed, and where its events go.

    Only the scheduler and its block manager change `num_computed` and `blocks`; only `commit` adds tokens.
    """

    def __init__(self, request: Request, text: OutputText, stream: TokenStream, *, context_length: int) -> None:
        """Replay `request.received` as generated; raises ValueError where they go on beyond the generation's end."""
        self.request = request
        self.tokens = list(request.prompt)
        self.num_computed = 0  # leading tokens whose keys and values are in the cache
        self.blocks: list[int] = []
        self.num_preemptions = 0
        self.sampling = new_sampling_state(
            request.sampling,
            prompt=request.prompt,
            min_tokens=request.stops.min_tokens,
            masked_ids=request.stops.token_ids,
            logprobs=request.output.logprobs,
            num_candidates=request.output.num_candidates,
        )
        self.timings = Timings(arrived=time.monotonic())
        self.speculation = SpeculationStats()
        self.finish_reason: FinishReason | None = None
        self._text = text
        self._stream = stream
        self._context_length = context_length
        self._matched_stop: str | None = None
        self._replay(request.received)

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)

    @property
    def num_generated(self) -> int:
        """Tokens drawn so far, those of an earlier stream included."""
        return len(self.tokens) - self.num_prompt

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
    def is_finished(self) -> bool:
        """Whether the generation has ended."""
        return self.finish_reason is not None

    @property
    def is_paused(self) -> bool:
        """Whether its consumer has fallen so far behind that no more may be drawn for now."""
        return self._stream.is_full

    def report_progress(self) -> None:
        """Tell a consumer who waits for the first token how much of what comes before it is computed."""
        if not self.timings.prefilled:
            self._stream.put(Progress(self.num_computed, len(self.tokens)))

    def commit(self, records: Iterable[TokenRecord], report: PassReport | None = None) -> int:
        """Append drawn tokens up to one that ends the generation, deliver them, and say how many were taken.

        A report of their pass goes with them, completed by what became of its predictions. The caller follows an end
        with `deliver_end`, once nothing of the sequence changes any more.
        """
        if not self.timings.prefilled:
            self.timings.prefilled = time.monotonic()
        taken: list[TokenRecord] = []
        text = ""
        for record in records:
            taken.append(record)
            text += self._append(record.token_id)
            if self.is_finished:
                break
        self.sampling.commit([record.token_id for record in taken])
        if self.is_finished:
            text += self._text.finish()
        self._stream.put(Chunk(text, tuple(taken), () if report is None else (_completed(report, taken),)))
        return len(taken)

    def finish(self, reason: FinishReason) -> None:
        """End the generation without another token: held text stays unsaid, so that what was said is a prefix."""
        self.finish_reason = reason

    def deliver_end(self) -> None:
        """Tell the consumer that the generation has ended, after all of its text and tokens."""
        self._stream.put(self._finished())

    def fail(self, message: str) -> None:
        """Tell the consumer that this engine cannot go on."""
        self._stream.put(Failed(message))

    def _replay(self, received: tuple[int, ...]) -> None:
        for count, token_id in enumerate(received):
            if self.is_finished:
                raise ValueError(f"the generation ends after {count} tokens, but {len(received)} were received")
            self._append(token_id)
        self.sampling.commit(received)

    def _append(self, token_id: int) -> str:
        """Add one token and return the text it releases; sets the finish reason where it is the last."""
        self.tokens.append(token_id)
        stops = self.request.stops
        if token_id in stops.token_ids:
            self.finish_reason = FinishReason.STOP_TOKEN
            return ""
        text, self._matched_stop = self._text.push(token_id)
        if self._matched_stop is not None:
            self.finish_reason = FinishReason.STOP_STRING
        elif self.num_generated >= stops.max_tokens:
            self.finish_reason = FinishReason.MAX_TOKENS
        elif len(self.tokens) >= self._context_length:
            self.finish_reason = FinishReason.CONTEXT_LENGTH
        return text

    def _finished(self) -> Finished:
        self.timings.finished = time.monotonic()
        stopped_by_token = self.finish_reason is FinishReason.STOP_TOKEN
        assert self.finish_reason is not None
        return Finished(
            reason=self.finish_reason,
            stop_token_id=self.tokens[-1] if stopped_by_token else None,
            stop_string=self._matched_stop,
            prompt_tokens=self.num_prompt,
            completion_tokens=self.num_generated,
            cached_tokens=0,
            preemptions=self.num_preemptions,
            timings=self.timings,
            speculation=self.speculation,
        )


def _completed(report: PassReport, taken: list[TokenRecord]) -> PassReport:
    return replace(report, num_tokens=len(taken), num_accepted=sum(record.predicted for record in taken))
