"""SamplingParams: how the next token is sampled.

The type, range and default of each number among the parameters are defined only here. Code that reads, writes or checks
them iterates over SAMPLING_NUMBERS; they have the same names in the proto and in the native module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, get_args, get_origin, get_type_hints

from services.engine.allowed_tokens import AllowedTokens
from services.engine.range import COUNT, Range

MAX_SUPPRESSED_IDS, MAX_BAD_WORDS, MAX_BAD_WORD_TOKENS = 1024, 128, 32

_RECOMMENDED = "a checkpoint's generation_config.json may have another default"
_PENALTY = Range(minimum=-2, maximum=2)
_PART = Range(minimum=0, maximum=1)
_SHARE = Range(minimum=0, maximum=1, excludes_minimum=True)
_POSITIVE = Range(minimum=0)
_FACTOR = Range(minimum=0.001, maximum=1000)  # logits multiplied or divided by it stay finite, also in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is sampled; by default everything is switched off."""

    seed: int
    samplers: tuple[str, ...] = ()  # those to apply, in order; empty: all, in the default order
    temperature: Annotated[float, _POSITIVE, _RECOMMENDED] = 1.0
    top_k: Annotated[int, COUNT, _RECOMMENDED] = 0
    top_p: Annotated[float, _SHARE, _RECOMMENDED] = 1.0
    min_p: Annotated[float, _PART, _RECOMMENDED] = 0.0
    top_n_sigma: Annotated[float, _POSITIVE] = 0.0
    smoothing_factor: Annotated[float, _POSITIVE] = 0.0
    smoothing_curve: Annotated[float, Range(minimum=1, maximum=3)] = 1.0
    dynatemp_range: Annotated[float, _POSITIVE] = 0.0
    dynatemp_exponent: Annotated[float, _POSITIVE] = 1.0
    top_a: Annotated[float, _PART] = 0.0
    tfs_z: Annotated[float, _SHARE] = 1.0
    typical_p: Annotated[float, _SHARE, _RECOMMENDED] = 1.0
    epsilon_cutoff: Annotated[float, _PART, _RECOMMENDED] = 0.0
    eta_cutoff: Annotated[float, _PART, _RECOMMENDED] = 0.0
    xtc_probability: Annotated[float, _PART, _RECOMMENDED] = 0.0
    xtc_threshold: Annotated[float, _PART, _RECOMMENDED] = 0.1
    skew: Annotated[float, Range(minimum=-10, maximum=10)] = 0.0
    mirostat_mode: Annotated[int, Range(minimum=0, maximum=2)] = 0
    mirostat_tau: Annotated[float, _POSITIVE] = 5.0  # bits
    mirostat_eta: Annotated[float, _POSITIVE] = 0.1
    adaptive_target: Annotated[float, Range(minimum=-1, maximum=1)] = -1.0
    adaptive_decay: Annotated[float, Range(minimum=0, maximum=0.99)] = 0.9
    repetition_penalty: Annotated[float, _FACTOR, _RECOMMENDED] = 1.0
    frequency_penalty: Annotated[float, _PENALTY] = 0.0
    presence_penalty: Annotated[float, _PENALTY] = 0.0
    penalty_last_n: Annotated[int, COUNT] = 0
    penalty_decay: Annotated[int, COUNT] = 0  # tokens before the last `penalty_last_n`, with decaying penalties
    no_repeat_ngram_size: Annotated[int, COUNT, _RECOMMENDED] = 0
    suppressed_ids: tuple[int, ...] = ()
    begin_suppressed_ids: tuple[int, ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()  # runs of tokens that are never completed
    dry_multiplier: Annotated[float, _POSITIVE] = 0.0
    dry_base: Annotated[float, Range(minimum=1)] = 1.75
    dry_allowed_length: Annotated[int, COUNT] = 2
    dry_penalty_last_n: Annotated[int, COUNT] = 0
    dry_breaker_ids: tuple[int, ...] = ()  # tokens at which repetitions end
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    banned_strings: tuple[str, ...] = ()  # which the text never contains, in upper or lower case
    allowed_tokens: AllowedTokens | None = None  # in the generated text; None: all

    @property
    def without_feedback(self) -> "SamplingParams":
        """The same parameters without samplers that depend on the probabilities of earlier tokens."""
        return replace(self, mirostat_mode=0, adaptive_target=-1.0)

    @property
    def named_ids(self) -> Iterator[int]:
        """Yield the token ids in any parameter, except those of `allowed_tokens`."""
        yield from (*self.logit_bias, *self.suppressed_ids, *self.begin_suppressed_ids, *self.dry_breaker_ids)
        for word in self.bad_words:
            yield from word

    @property
    def follows_history(self) -> bool:
        """Whether the distribution depends on the last tokens, so that no token can be sampled ahead of them."""
        return bool(self.penalty_last_n or self.no_repeat_ngram_size or self.bad_words or self.dry_multiplier)


@dataclass(frozen=True, slots=True)
class SamplingNumber:
    """The definition of one of the numbers of SamplingParams."""

    name: str
    kind: type[int] | type[float]
    allowed: Range
    is_recommended: bool  # whether a checkpoint may have another default


def _numbers() -> Iterator[SamplingNumber]:
    for name, hint in get_type_hints(SamplingParams, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, allowed, *marks = get_args(hint)
            yield SamplingNumber(name, kind, allowed, _RECOMMENDED in marks)


SAMPLING_NUMBERS = tuple(_numbers())
