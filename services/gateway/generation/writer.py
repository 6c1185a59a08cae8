"""Writer: how an API tells of an answer, in events or as a whole."""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from outrider import Result
from services.gateway.generation.head import Head
from services.gateway.generation.piece import Piece
from services.gateway.generation.problem import Problem
from services.gateway.generation.request import GenerationRequest

Json = dict[str, Any]
Request = TypeVar("Request", bound=GenerationRequest)


class Event(NamedTuple):
    """One event of a stream; some APIs give theirs names."""

    data: Json
    name: str | None = None


class Writer(Protocol):
    """Writes one answer, piece by piece; of the events of a piece only the last one may tell of its delta."""

    def piece(self, piece: Piece, /) -> Seq[Event]:
        """What follows."""

    def end(self, choice: int, result: Result, /) -> Seq[Event]:
        """The end of one choice."""

    def tail(self, results: Seq[Result], /) -> Seq[Event]:
        """The end of all; the results are those of the prompts."""

    def keep(self, piece: Piece, /) -> None:
        """Take what follows in an answer that is not streamed, as far as it is long to tell."""

    def whole(self, results: Seq[Result], /) -> Json:
        """The answer that is not streamed, whose pieces are kept; some of its lists may be encoded."""


@dataclass(frozen=True, slots=True)
class Api(Generic[Request]):
    """One way to ask for text and be told of it."""

    request: type[Request]
    writer: Callable[[Request, Head], Writer]
    problem: Callable[[Problem], Json]
    problem_event: Callable[[Problem], Event]
    """How an error in a stream is told."""
    is_numbered: bool = False
    """Whether each event tells its `sequence_number`."""
    last: bytes = b""
    """What ends a stream, behind its events."""


def choices_of(results: Seq[Result]) -> list[Result]:
    """The results of all choices: for each prompt its samples."""
    return [sample for result in results for sample in (result, *result.further_samples)]


def without_none(fields: Mapping[str, object]) -> Json:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
