"""Sequence: one generation's state, from its prompt to its last token."""

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, replace

from services.engine.events import (
    Chunk,
    Failed,
    Finished,
    FinishReason,
    PassReport,
    Progress,
    Refused,
    SpeculationStats,
    Timings,
    TokenRecord,
)
from services.engine.loop_detector import LoopDetector
from services.engine.native import SamplingState
from services.engine.output_text import OutputText
from services.engine.request import Request
from services.engine.sampling_state import new_healing_state, new_sampling_state
from services.engine.token_stream import TokenStream


class Sequence:
    """The tokens of one request, how far they are computed, and where its events go.

    Only the scheduler and its block manager change `num_computed` and `blocks`; only `commit` adds tokens.
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
        self.expires_at, self._expiry = _expiry(request, self.timings.arrived)
        self._text = text
        self._last_text = ""  # that no last token has released
        self._stream = stream
        self._context_length = context_length
        self._loop = None if request.stops.loop is None else LoopDetector(**asdict(request.stops.loop))
        self._matched_stop: str | None = None
        self._refusal: Refused | None = None
        if request.healing is None:
            self.sampling = _new_sampling(request, self.tokens)
            self._replay(request.received)
        else:
            self.tokens.pop()
            self.sampling = new_healing_state(request.sampling, prompt=request.prompt, healing=request.healing)

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
            self._stream.put(Progress(self.num_computed, self.num_prompt + len(self.request.received)))

    def commit(self, records: Iterable[TokenRecord], report: PassReport | None = None) -> int:
        """Append drawn tokens up to one that ends the generation, deliver them, and say how many were taken.

        The token that heals the prompt is none of the generation's. A report of their pass goes with the others,
        completed by what became of its predictions. The caller follows an end with `deliver_end`, once nothing of the
        sequence changes any more.
        """
        if self.is_healing:
            self._heal(next(iter(records)).token_id)
            return 0
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
        """End the generation without another token: held text goes with the end, not with the tokens.

        So the text of all tokens is still what a continuation from them goes on from.
        """
        self.finish_reason = reason
        self._last_text = self._text.finish()

    def expire(self) -> None:
        """End the generation because its time is over."""
        self.finish(self._expiry)

    def deliver_end(self) -> None:
        """Tell the consumer that the generation has ended, after all of its text and tokens."""
        self._stream.put(self._refusal or self._finished())

    def fail(self, message: str) -> None:
        """Tell the consumer that this engine cannot go on."""
        self._stream.put(Failed(message))

    def _heal(self, token_id: int) -> None:
        """Complete the prompt; from here on, all is as after any other prompt but for the first bytes of the text."""
        assert self.request.healing is not None
        self.tokens.append(token_id)
        self._text.begin(token_id, num_known=self.request.healing.num_known)
        self.sampling = _new_sampling(self.request, self.tokens)
        try:
            self._replay(self.request.received)
        except ValueError as error:  # too late for an error of the call
            self._refusal = Refused(str(error))

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
            return self._text.push_stop_token(token_id)
        text, self._matched_stop = self._text.push(token_id)
        is_loop = self._loop is not None and self._loop.push(token_id)
        if self._matched_stop is not None:
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
        stopped_by_token = self.finish_reason is FinishReason.STOP_TOKEN
        assert self.finish_reason is not None
        return Finished(
            reason=self.finish_reason,
            stop_token_id=self.tokens[-1] if stopped_by_token else None,
            stop_string=self._matched_stop,
            prompt_tokens=self.num_prompt,
            completion_tokens=self.num_generated,
            cached_tokens=self.num_cached,
            preemptions=self.num_preemptions,
            timings=self.timings,
            speculation=self.speculation,
            text=self._last_text,
        )


def _new_sampling(request: Request, prompt: list[int]) -> SamplingState:
    return new_sampling_state(
        request.sampling,
        prompt=prompt,
        min_tokens=request.stops.min_tokens,
        masked_ids=request.stops.token_ids,
        logprobs=request.output.logprobs,
        num_candidates=request.output.num_candidates,
    )


def _expiry(request: Request, arrived: float) -> tuple[float, FinishReason]:
    """When a generation is to end at the latest, on the monotonic clock, and what the reason is then."""
    deadline = math.inf if request.deadline is None else request.deadline
    limit = math.inf if request.stops.time_limit is None else arrived + request.stops.time_limit
    return (limit, FinishReason.TIME_LIMIT) if limit < deadline else (deadline, FinishReason.DEADLINE)


def _completed(report: PassReport, taken: list[TokenRecord]) -> PassReport:
    return replace(report, num_tokens=len(taken), num_accepted=sum(record.predicted for record in taken))
