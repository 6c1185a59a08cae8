"""Sequence: one generation's state, from its prompt to its last token."""

import math
import time

from services.engine.events import FinishReason, Refused, SpeculationStats, Timings
from services.engine.request import OutputOptions, Request
from services.engine.sampling_state import new_healing_state, new_request_state
from services.target.sequence.feedback_replay import FeedbackReplay
from services.target.sequence.negative_text import NegativeText
from services.target.sequence.pooled_states import PooledStates
from services.target.sequence.prompt_logprobs import PromptLogprobs
from services.target.sequence.token_stream import TokenStream


class Sequence:
    """The tokens of one request, how far they are computed, and where its events go.

    Only the scheduler and its block manager change `num_computed` and `blocks`; only the output pipeline changes the
    tokens (by `append` and `truncate`), the sampling state, and the end.
    """

    def __init__(
        self, request: Request, stream: TokenStream, *, context_length: int, first_sample: "Sequence | None" = None
    ) -> None:
        """`first_sample` computes the same prompt, whose blocks this sequence may share."""
        self.request = request
        self.stream = stream
        self.context_length = context_length
        self.first_sample = first_sample
        self.tokens = list(request.prompt)
        self.num_computed = 0  # leading tokens whose keys and values are in the cache
        self.blocks: list[int] = []
        guidance = request.guidance
        self.negative = None if guidance is None else NegativeText(guidance, cache_scope=self.cache_scope)
        self.num_cached = 0  # tokens found in the cache at the start
        self.num_preemptions = 0
        self.timings = Timings(arrived=time.monotonic())
        self.speculation = SpeculationStats()
        self.finish_reason: FinishReason | None = None
        self.refusal: Refused | None = None  # in place of a reason, if the received tokens are not the generation's
        is_due = request.output.prompt_logprobs and not request.received  # else they were delivered before
        first_scored = 0 if request.num_scored is None else request.num_shared
        self.prompt_logprobs = PromptLogprobs(request.output, self.num_prompt, first=first_scored) if is_due else None
        self.pooled = None if request.pooling is None else PooledStates(request.pooling, self.num_prompt)
        self.grammar = request.begin_grammar()  # the answer's state in it
        self.thought = request.begin_thought()  # the state of the reasoning
        if request.healing is None:
            self.sampling = new_request_state(request, self.tokens)
        else:
            self.tokens.pop()
            self.sampling = new_healing_state(
                request.sampling, prompt=request.prompt, healing=request.healing, output=self.output_options
            )
        is_fed_back = self.sampling.feeds_back and bool(request.received)
        self.replay = FeedbackReplay(request) if is_fed_back else None  # until it is complete
        self.num_shared = min(request.num_shared, len(self.tokens)) - 1
        """Leading tokens that a first sample computes for all samples: no sample draws from their rows."""
        time_limit = math.inf if request.stops.time_limit is None else self.timings.arrived + request.stops.time_limit
        deadline = math.inf if request.deadline is None else request.deadline
        self.expires_at = min(time_limit, deadline)  # seconds on the monotonic clock
        self.expiry_reason = FinishReason.TIME_LIMIT if time_limit < deadline else FinishReason.DEADLINE

    @property
    def cache_scope(self) -> str | None:
        """The scope of its blocks in the prefix cache, as `CachePolicy.scope`."""
        return self.request.cache.scope(self.request.lora)

    @property
    def texts(self) -> "tuple[KvOwner, ...]":
        """The texts that are computed, which own KV blocks: its own, and if it is guided the negative text."""
        return (self,) if self.negative is None else (self, self.negative)

    def lengths(self, num_further: int) -> "Lengths":
        """The length of each text with `num_further` more tokens."""
        return [(text, len(text.tokens) + num_further) for text in self.texts]

    def lengths_after(self, runs: tuple[int, int]) -> "Lengths":
        """The number of computed tokens of each text after runs of these lengths (see `split`)."""
        return [(text, text.num_computed + length) for text, length in zip(self.texts, runs, strict=False)]

    def append(self, token_id: int) -> None:
        """Add a token to all texts."""
        for text in self.texts:
            text.tokens.append(token_id)

    def truncate(self, num_generated: int) -> None:
        """Take back the tokens of all texts after the first `num_generated` generated ones."""
        for text in self.texts:
            del text.tokens[text.num_prompt + num_generated :]

    @property
    def num_prompt(self) -> int:
        """The length of the prompt."""
        return len(self.request.prompt)

    @property
    def num_generated(self) -> int:
        """Tokens drawn so far, including those of an earlier stream."""
        return len(self.request.received) if self.is_healing else len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn; while decoding, 1 for each text."""
        own = len(self.tokens) - self.num_computed
        return own if self.negative is None else own + self.negative.num_pending

    @property
    def is_decoding(self) -> bool:
        """Whether only the last token is still to be computed."""
        return self.num_pending == len(self.texts)

    @property
    def has_shared(self) -> bool:
        """Whether all tokens that further samples share are computed."""
        return self.num_computed >= self.num_shared and (self.negative is None or self.negative.num_pending <= 1)

    def split(self, num_rows: int) -> tuple[int, int]:
        """Divide at most `num_rows` next rows between its own text and the negative one.

        The texts' last tokens wait for each other, so that their logits come from one pass.
        """
        if self.negative is None:
            return num_rows, 0
        own, negative = self.num_pending - self.negative.num_pending, self.negative.num_pending
        if num_rows == own + negative:
            return own, negative
        num_negative = min(num_rows, negative - 1)
        return min(num_rows - num_negative, own - 1), num_negative

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn after the prompt."""
        return self.request.num_scored is None and self.pooled is None

    def is_prompt_work_done(self, num_new: int) -> bool:
        """Whether nothing is drawn, and all requested results of the prompt are computed with `num_new` more tokens."""
        if self.pooled is not None:
            return self.pooled.is_complete
        is_computed = self.num_computed + num_new >= self.num_needed
        return not self.draws and is_computed and not self.needs_prompt_logprobs

    @property
    def num_pinned(self) -> int:
        """Leading tokens whose blocks it still owns after its end: all computed ones, if it was for a session."""
        return self.num_computed if self.request.pins and self.finish_reason is FinishReason.MAX_TOKENS else 0

    @property
    def num_needed(self) -> int:
        """Leading tokens whose rows are needed now: the rows after them give no requested result, or would draw a token
        that cannot be drawn yet.
        """
        if self.pooled is not None:
            return self.pooled.num_needed
        return len(self.tokens) - (not self.draws or self.replay is not None)

    @property
    def num_reusable(self) -> int:
        """Leading tokens that may be taken from the prefix cache: all but those whose rows give a requested result."""
        most = len(self.tokens) - 1
        if self.pooled is not None:
            return min(most, self.pooled.num_skippable)
        if self.replay is not None:
            return min(most, self.replay.num_skippable)
        if self.prompt_logprobs is None or self.prompt_logprobs.is_complete:
            return most
        return min(most, self.prompt_logprobs.num_skippable)

    @property
    def num_remaining(self) -> int:
        """Tokens that can still be drawn before a limit ends the generation."""
        return min(self.num_prompt + self.request.stops.max_tokens - len(self.tokens), self.room)

    @property
    def room(self) -> int:
        """Tokens for which the context still has room."""
        guidance = self.request.guidance
        if guidance is None:
            return self.context_length - len(self.tokens)
        return guidance.room(self.num_prompt, self.context_length) - self.num_generated

    @property
    def is_healing(self) -> bool:
        """Whether the next token to be drawn is the last one of the prompt."""
        return len(self.tokens) < self.num_prompt

    @property
    def is_finished(self) -> bool:
        """Whether the generation has ended."""
        return self.finish_reason is not None or self.refusal is not None

    @property
    def is_paused(self) -> bool:
        """Whether so many tokens wait for its reader that no more may be drawn for now (backpressure)."""
        return self.stream.is_full

    @property
    def output_options(self) -> OutputOptions:
        """The fields of the next token's record."""
        if not self.is_healing:
            return self.request.output
        return OutputOptions() if self.prompt_logprobs is None else self.prompt_logprobs.output

    @property
    def needs_prompt_logprobs(self) -> bool:
        """Whether there are prompt tokens whose records are requested and have not been delivered."""
        return self.prompt_logprobs is not None and not self.prompt_logprobs.is_complete

    @property
    def needs_prompt_logits(self) -> bool:
        """Whether there are rows before the one that draws whose logits are needed."""
        return self.needs_prompt_logprobs or self.replay is not None

    def prompt_targets(self, num_rows: int) -> list[int]:
        """The prompt tokens whose records the next rows give, or the received tokens whose levels they give."""
        if self.replay is not None:
            return self.replay.targets(self.num_computed, num_rows)
        if self.prompt_logprobs is None:
            return []
        return self.prompt_logprobs.targets(self.tokens, self.num_computed, num_rows)


KvOwner = Sequence | NegativeText
Lengths = list[tuple[KvOwner, int]]  # in tokens
