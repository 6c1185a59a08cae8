"""Request: what one generation was asked for, resolved and validated, immutable."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import derive_seed
from services.engine.forced_tokens import ForcedTokens
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.state import GrammarState
from services.engine.guidance import Guidance
from services.engine.lora.adapter import Adapter
from services.engine.sampling_params import SamplingParams
from services.engine.text.healing import Healing
from services.engine.thinking_budget import ThinkingBudget, Thought


class SpeculationMode(Enum):
    """Whether predictions of a sequence's next tokens are verified."""

    NEVER = auto()
    AUTO = auto()
    ALWAYS = auto()


class Pooling(Enum):
    """Which tokens' hidden states a text's embedding is made of."""

    LAST = auto()
    MEAN = auto()
    CLS = auto()  # the first one's


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationPolicy:
    """What the caller wants of speculation; it never changes the output."""

    mode: SpeculationMode = SpeculationMode.AUTO
    num_predictions: int | None = None  # per pass, an upper bound; None leaves it to the source
    lookup: bool = True  # whether the text's own repetitions may be used


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """What the prefix cache may do for a request; it never changes the output."""

    prefix: bool = True  # whether blocks are taken from it and left to it
    salt: str = ""  # requests with another one find none of these blocks

    def scope(self, adapter: Adapter | None) -> str | None:
        """Who may find its blocks: requests with the same one; None if nobody may.

        An adapter has keys and values of its own, and no name of one holds \\0, so that no salt stands for it.
        """
        return f"{adapter or ''}\0{self.salt}" if self.prefix else None


ANYBODY = CachePolicy().scope(None)
"""The scope of blocks that every request finds that says nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Whose request it is, and when its turn comes; it never changes the output."""

    caller: str = ""
    weight: float = 1.0  # the caller's, beside others
    priority: int = 0  # higher comes sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A run of tokens repeated at least `repetitions` times in the last `window` tokens."""

    window: int
    repetitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopConditions:
    """What ends a generation; `token_ids` holds the end-of-sequence ids too unless they are ignored."""

    max_tokens: int
    min_tokens: int = 0
    token_ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    include_stop: bool = False  # whether what stops the text is part of it
    time_limit: float | None = None  # seconds from arrival
    loop: Loop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What is returned beside the text and the token ids; `logits` alone means those of the whole vocabulary."""

    records: bool = False
    logprobs: bool = False
    num_candidates: int = 0
    show_special_tokens: bool = False
    pass_reports: bool = False
    rank: bool = False
    entropy: bool = False
    logits: bool = False
    logits_token_ids: tuple[int, ...] = ()
    prompt_logprobs: bool = False

    def of_prompt(self) -> "OutputOptions":
        """What is told of the tokens of a prompt whose log-probabilities are asked."""
        return replace(self, logprobs=True, logits=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation; `received` are tokens of it that an earlier, broken stream already delivered."""

    request_id: str
    prompt: tuple[int, ...]
    healing: Healing | None = None  # of the prompt's last token
    received: tuple[int, ...] = ()
    sampling: SamplingParams
    stops: StopConditions
    grammar: Grammar | None = None  # what the generated text follows; there is none where the prompt is healed
    thinking: ThinkingBudget | None = None  # nor is there one of these
    forced: ForcedTokens | None = None
    guidance: Guidance | None = None  # nor of this
    output: OutputOptions = OutputOptions()
    speculation: SpeculationPolicy = SpeculationPolicy()
    cache: CachePolicy = CachePolicy()
    share: Share = Share()
    lora: Adapter | None = None  # that the weights are changed by
    num_samples: int = 1
    num_scored: int | None = None  # the prompt's last tokens, told of as `prompt_logprobs` are; then nothing is drawn
    pooling: Pooling | None = None  # of the prompt's hidden states; then nothing is drawn
    pins: bool = False  # whether what was computed of the prompt stays in the KV cache until it is let go
    deadline: float | None = None  # seconds on the monotonic clock
    traceparent: str = ""  # the W3C trace context that work for it belongs to, if there is one

    @property
    def num_shared(self) -> int:
        """Leading tokens of the prompt that all samples have, or all texts that are scored behind one prompt."""
        return len(self.prompt) - (self.num_scored or 0)

    @property
    def samples(self) -> list["Request"]:
        """Every sample as a request of its own, the first as this one."""
        return [self, *map(self.sample, range(1, self.num_samples))]

    def begin_grammar(self) -> GrammarState | None:
        """Return where the received tokens stand in the grammar, if there is one."""
        return None if self.grammar is None else self.grammar.begin(self.received, stop_ids=self.stops.token_ids)

    def begin_thought(self) -> Thought | None:
        """Return where an answer without a token stands with its thought, if that is bounded."""
        return None if self.thinking is None else self.thinking.begin()

    @property
    def masks_tokens(self) -> bool:
        """Whether there are places in which not every token may be drawn."""
        parts = (self.grammar, self.thinking, self.sampling.allowed_tokens, self.forced)
        return any(part is not None for part in parts)

    def masks(
        self, place: int, grammar: GrammarState | None, thought: Thought | None, predictions: Seq[int] = ()
    ) -> NDArray[np.uint32] | None:
        """What may be drawn in a place of the answer, where the text stands there in the grammar and with its thought,
        and behind each prediction, as `GrammarState.masks` has it; None for all.
        """
        masks = None if grammar is None else grammar.masks(predictions)
        allowed = self.sampling.allowed_tokens
        masks = masks if allowed is None else allowed.restrict(masks, 1 + len(predictions))
        masks = masks if thought is None else thought.restrict(masks, predictions)
        return masks if self.forced is None else self.forced.restrict(masks, place, 1 + len(predictions))

    def sample(self, index: int) -> "Request":
        """One of the samples as a request of its own, with the seed that Philox derives for it; sample 0 keeps this.

        It is also the one that tells what is asked of the prompt that they share.
        """
        sampling = replace(self.sampling, seed=derive_seed(self.sampling.seed, index))
        output = replace(self.output, prompt_logprobs=self.output.prompt_logprobs and index == 0)
        return replace(self, sampling=sampling, output=output, num_samples=1)
