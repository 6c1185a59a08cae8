"""Sequence: one generation's state, from its prompt to its last token."""

import math
import time
from collections.abc import Sequence as Seq

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.events import FinishReason, Refused, SpeculationStats, Timings
from services.engine.request import Request
from services.target.sequence.draw_state import DrawState
from services.target.sequence.event_sink import EventSink
from services.target.sequence.expected_tokens import ExpectedTokens
from services.target.sequence.feedback_replay import FeedbackReplay
from services.target.sequence.pooled_states import PooledStates
from services.target.sequence.prompt_logprobs import PromptLogprobs
from services.target.sequence.prompt_results import PromptResults


class Sequence:
    """The tokens of one request, how far they are computed, and where its events go.

    Only the scheduler changes how far a text is computed. Only the block manager changes a text's blocks, for the
    scheduler or for an attached drafter. Only the output pipeline changes the tokens (by `append` and `take_back`), the
    draw's state, and the end.
    """

    def __init__(
        self, request: Request, stream: EventSink, *, context_length: int, first_sample: "Sequence | None" = None
    ) -> None:
        """`first_sample` computes the same prompt, whose blocks this sequence may share."""
        self.request = request
        self.stream = stream
        self.first_sample = first_sample
        self.texts = _texts(request)
        """The texts that are computed: its own, and if it is guided the same answer after the negative prompt."""
        self.text = self.texts[0]
        """Its own text: the prompt and the answer."""
        self.tokens = self.text.tokens
        """The tokens of its own text."""
        self.num_prompt = len(request.prompt)
        self.num_shared = [
            min(request.num_shared, len(self.tokens)) - 1,
            *(text.num_pending - 1 for text in self.texts[1:]),
        ]
        """Leading tokens of each text that a first sample computes for all samples: no sample draws from their rows."""
        self.num_cached = 0  # tokens of its own text that were found in the cache at the start
        self.draw = DrawState(request)
        self.prompt_results = _prompt_results(request, self.tokens, self.draw)
        self.limit = _limit(request, context_length)  # the most tokens of the answer
        self.end: FinishReason | Refused | None = None  # refused if the received tokens are not the generation's
        self.timings = Timings(arrived=time.monotonic())
        time_limit = math.inf if request.stops.time_limit is None else self.timings.arrived + request.stops.time_limit
        deadline = math.inf if request.deadline is None else request.deadline
        self.expires_at = min(time_limit, deadline)  # seconds on the monotonic clock
        self.num_preemptions = 0
        self.speculation = SpeculationStats()
        self._expected = ExpectedTokens(request.speculation) if request.speculation.expected else None

    def append(self, token_id: int) -> None:
        """Add a token to all texts."""
        for text in self.texts:
            text.tokens.append(token_id)

    def take_back(self, num_tokens: int) -> None:
        """Take back the last tokens of all texts."""
        for text in self.texts:
            del text.tokens[len(text.tokens) - num_tokens :]

    def expected(self, most: int) -> Seq[int]:
        """At most so many of the next tokens, as the request expects them; the last token of all is always the target's
        own.
        """
        if self._expected is None or self.is_healing:
            return ()
        return self._expected.after(self.tokens, self.num_prompt, max(0, min(most, self.num_remaining - 1)))

    @property
    def num_generated(self) -> int:
        """Tokens drawn so far, including those of an earlier stream."""
        return len(self.request.received) if self.is_healing else len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn; while decoding, 1 for each text."""
        own = self.text.num_pending
        return own if len(self.texts) == 1 else own + sum([text.num_pending for text in self.texts[1:]])

    @property
    def num_remaining(self) -> int:
        """Tokens that can still be drawn before a limit ends the generation."""
        return self.num_prompt + self.limit - len(self.tokens)

    @property
    def is_healing(self) -> bool:
        """Whether the next token to be drawn is the last one of the prompt."""
        return len(self.tokens) < self.num_prompt

    @property
    def is_finished(self) -> bool:
        """Whether the generation has ended."""
        return self.end is not None

    @property
    def is_paused(self) -> bool:
        """Whether no token may be drawn for now: so many wait for its reader (backpressure), or its grammar is matched
        anew after tokens were taken back.
        """
        return self.stream.is_full or not self.draw.allowed.grammar.is_ready


def _texts(request: Request) -> tuple[CachedTokens, ...]:
    scope = request.cache.scope(request.lora)
    prompt = request.prompt if request.healing is None else request.prompt[:-1]
    prompts = [prompt] if request.guidance is None else [prompt, request.guidance.negative_prompt]
    return tuple(CachedTokens(each, cache_scope=scope) for each in prompts)


def _prompt_results(request: Request, tokens: list[int], draw: DrawState) -> PromptResults:
    if request.pooling is not None:
        return PooledStates(request, tokens, request.pooling)
    if request.received and draw.sampling.feeds_back:
        return FeedbackReplay(request, tokens, draw.sampling)
    return (PromptLogprobs if request.reports_prompt else PromptResults)(request, tokens)


def _limit(request: Request, context_length: int) -> int:
    """The most tokens that the answer can have by its request and by the context's room."""
    num_prompt, guidance = len(request.prompt), request.guidance
    room = context_length - num_prompt if guidance is None else guidance.room(num_prompt, context_length)
    return min(request.stops.max_tokens, room)
