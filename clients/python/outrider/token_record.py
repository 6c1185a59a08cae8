"""Records of tokens, and of text that was withdrawn before it was sent."""

import math
import struct
from dataclasses import dataclass
from enum import StrEnum


class Dtype(StrEnum):
    """A type of numbers."""

    FLOAT32 = "float32"
    UNKNOWN = "unknown"
    """The server sent a type that this version of the client does not know."""


class PredictionSource(StrEnum):
    """Where predictions come from."""

    DRAFT = "draft"
    LOOKUP = "lookup"
    """An earlier place of the prompt and the answer that reads the same."""
    ATTACHED = "attached"
    """A drafter that is attached to the target."""
    EXPECTED = "expected"
    """By the request, to verify an answer."""
    UNKNOWN = "unknown"
    """The server named a source that this version of the client does not know."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that might have been drawn, with its log-probability before and after sampling parameters."""

    id: int
    bytes: bytes
    text: str
    raw_logprob: float
    processed_logprob: float


@dataclass(frozen=True, slots=True)
class RejectedPrediction:
    """A predicted token that was not accepted."""

    id: int
    bytes: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """Numbers of one type, each little endian; `numpy.frombuffer(tensor.data, "<f4")` reads them without a copy."""

    shape: tuple[int, ...]
    dtype: Dtype
    data: bytes

    def values(self) -> tuple[float, ...]:
        """All numbers, in the order of the dimensions; raises ValueError for an unknown type."""
        if self.dtype is not Dtype.FLOAT32:
            raise ValueError("the numbers are of a type that this version of the client does not know")
        return struct.unpack(f"<{math.prod(self.shape)}f", self.data)


@dataclass(frozen=True, slots=True)
class Token:
    """The record of one token of the answer or the prompt; what was not asked for is None."""

    id: int
    bytes: bytes
    text: str
    raw_logprob: float | None
    processed_logprob: float | None
    candidates: tuple[Candidate, ...]
    predicted: bool
    prediction_source: PredictionSource | None
    """None if it was not predicted."""
    rank: int | None
    """Among all tokens by raw probability, from 1."""
    entropy: float | None
    """Of the raw distribution, in nats."""
    logits: Tensor | None


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A text that was taken back, because a banned string was complete with it, before anything of it was sent."""

    text: str
    banned_string: str
    position: int
    """Among the generated tokens, of the one in which the banned string began."""
    token_id: int
    """Of that token, which was forbidden there from then on."""
