"""Request: the parameters of one generation, resolved, validated and immutable."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import reduce

from services.engine.decoder.native import derive_seed
from services.engine.forced_tokens import ForcedTokens
from services.engine.grammar.free_text import FreeText
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.state import GrammarState
from services.engine.grammar.trial import GrammarTrial
from services.engine.guidance import Guidance
from services.engine.lora.adapter import Adapter
from services.engine.sampling_params import SamplingParams
from services.engine.text.healing import Healing
from services.engine.thinking_budget import FreeThought, ThinkingBudget, Thought


class SpeculationMode(Enum):
    """Whether predictions of a sequence's next tokens are verified."""

    NEVER = auto()
    AUTO = auto()
    ALWAYS = auto()


class Pooling(Enum):
    """The tokens whose hidden states form a text's embedding."""

    LAST = auto()
    MEAN = auto()
    CLS = auto()  # the first token


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationPolicy:
    """The caller's options for speculative decoding, which never change the output."""

    mode: SpeculationMode = SpeculationMode.AUTO
    num_predictions: int | None = None  # the most in each pass; None: the source decides
    lookup: bool = True  # whether predictions may be taken from repetitions in the text
    expected: tuple[int, ...] = ()  # the tokens with which the answer may begin


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """The caller's options for the prefix cache, which never change the output."""

    prefix: bool = True  # whether the request uses blocks of the cache, and adds its own
    salt: str = ""  # only requests with the same salt share blocks

    def scope(self, adapter: Adapter | None) -> str | None:
        """Return the cache scope: only requests of the same scope share blocks; None: no other request may.

        Each LoRA adapter has keys and values of its own. Its name contains no \\0, so no salt can imitate it.
        """
        return f"{adapter or ''}\0{self.salt}" if self.prefix else None


ANYBODY = CachePolicy().scope(None)
"""The cache scope of requests with default options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The caller of a request, and its weight and priority in scheduling; they never change the output."""

    caller: str = ""
    weight: float = 1.0  # of the caller, relative to others
    priority: int = 0  # higher comes sooner


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A run of tokens repeated at least `repetitions` times in the last `window` tokens."""

    window: int
    repetitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopConditions:
    """The conditions that end a generation; `token_ids` includes the end-of-sequence ids unless they are ignored."""

    max_tokens: int
    min_tokens: int = 0
    token_ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    include_stop: bool = False  # whether the stop string or token is part of the text
    time_limit: float | None = None  # seconds from arrival
    loop: Loop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What to return beside the text and the token ids; `logits` without ids means those of the whole vocabulary."""

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
        """Return the options for the records of a prompt's tokens, if `prompt_logprobs` are requested."""
        return replace(self, logprobs=True, logits=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation; `received` are its tokens that an earlier, broken stream already delivered."""

    request_id: str
    prompt: tuple[int, ...]
    healing: Healing | None = None  # of the prompt's last token
    received: tuple[int, ...] = ()
    sampling: SamplingParams
    stops: StopConditions
    grammar: Grammar | GrammarTrial | None = None  # of the generated text, which the engine compiles; None if healed
    thinking: ThinkingBudget | None = None  # None if the prompt is healed
    forced: ForcedTokens | None = None
    guidance: Guidance | None = None  # None if the prompt is healed
    output: OutputOptions = OutputOptions()
    speculation: SpeculationPolicy = SpeculationPolicy()
    cache: CachePolicy = CachePolicy()
    share: Share = Share()
    lora: Adapter | None = None  # the LoRA adapter, None for the model's own weights
    num_samples: int = 1
    num_scored: int | None = None  # last tokens of the prompt to score, in `prompt_logprobs`; then nothing is generated
    pooling: Pooling | None = None  # of the prompt's hidden states; then nothing is generated
    pins: bool = False  # whether the prompt's KV blocks stay in the cache until they are unpinned (a session)
    deadline: float | None = None  # seconds on the monotonic clock
    traceparent: str = ""  # the W3C trace context of the request, if there is one
    is_counted: bool = True  # in statistics, as requests of clients are

    @property
    def num_shared(self) -> int:
        """The leading tokens of the prompt that all samples share, or all texts that are scored after one prompt."""
        return len(self.prompt) - (self.num_scored or 0)

    @property
    def samples(self) -> list["Request"]:
        """Every sample as a request of its own; the first is this request."""
        return [self, *map(self.sample, range(1, self.num_samples))]

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn after the prompt."""
        return self.num_scored is None and self.pooling is None

    @property
    def reports_prompt(self) -> bool:
        """Whether records of the prompt's tokens are requested, and were not delivered by an earlier stream."""
        return self.output.prompt_logprobs and not self.received

    def begin_grammar(self, received: Seq[int]) -> GrammarState | FreeText:
        """Return the state of an answer in its grammar after the received tokens."""
        if self.grammar is None:
            return FreeText()
        assert isinstance(self.grammar, Grammar)
        return self.grammar.begin(received, stop_ids=self.stops.token_ids)

    def begin_thought(self, received: Seq[int] = ()) -> Thought | FreeThought:
        """Return the state of an answer's thinking after the received tokens."""
        return FreeThought() if self.thinking is None else reduce(Thought.after, received, self.thinking.begin())

    @property
    def begins_slowly(self) -> bool:
        """Whether a grammar must be compiled or received tokens replayed before it begins."""
        return bool(self.received) or self.grammar is not None

    @property
    def masks_tokens(self) -> bool:
        """Whether some positions do not allow every token."""
        parts = (self.grammar, self.thinking, self.sampling.allowed_tokens, self.forced)
        return any(part is not None for part in parts)

    def sample(self, index: int) -> "Request":
        """Return one of the samples as a request of its own, with a seed derived by Philox; sample 0 keeps the seed.

        Sample 0 also returns the records of the shared prompt, if requested.
        """
        sampling = replace(self.sampling, seed=derive_seed(self.sampling.seed, index))
        output = replace(self.output, prompt_logprobs=self.output.prompt_logprobs and index == 0)
        return replace(self, sampling=sampling, output=output, num_samples=1)
