"""SamplingParams: how the next token is chosen.

Each number among the parameters has its type, its range and its default here and nowhere else: what reads, writes or
checks them walks SAMPLING_NUMBERS, and finds them under the same names in the proto and in the native module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, get_args, get_origin, get_type_hints

from services.engine.allowed_tokens import AllowedTokens
from services.engine.range import COUNT, Range

_RECOMMENDED = "a checkpoint's generation_config.json may have another default"
_PENALTY = Range(minimum=-2, maximum=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen; 0 switches `top_k` and `min_p` off, 1 switches `top_p` and the penalty off."""

    seed: int
    temperature: Annotated[float, Range(minimum=0), _RECOMMENDED] = 1.0
    top_k: Annotated[int, COUNT, _RECOMMENDED] = 0
    top_p: Annotated[float, Range(minimum=0, maximum=1, excludes_minimum=True), _RECOMMENDED] = 1.0
    min_p: Annotated[float, Range(minimum=0, maximum=1), _RECOMMENDED] = 0.0
    repetition_penalty: Annotated[float, Range(minimum=0, excludes_minimum=True), _RECOMMENDED] = 1.0
    frequency_penalty: Annotated[float, _PENALTY] = 0.0
    presence_penalty: Annotated[float, _PENALTY] = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    banned_strings: tuple[str, ...] = ()  # that the text never has, in whatever case
    allowed_tokens: AllowedTokens | None = None  # that may be drawn behind the prompt; None for all


@dataclass(frozen=True, slots=True)
class SamplingNumber:
    """What SamplingParams says of one of its numbers."""

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
