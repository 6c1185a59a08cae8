"""Writer: the interface that formats an answer for an API, in events or as a whole."""

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
    """One event of a stream; in some APIs events have names."""

    data: Json
    name: str | None = None


class Writer(Protocol):
    """Writes one answer, piece by piece; only the last of a piece's events may contain its delta."""

    def piece(self, piece: Piece, /) -> Seq[Event]:
        """Return the events of the next piece."""

    def end(self, choice: int, result: Result, /) -> Seq[Event]:
        """Return the events of the end of one choice."""

    def tail(self, results: Seq[Result], /) -> Seq[Event]:
        """Return the events after the end of all choices; there is a result for each prompt."""

    def keep(self, piece: Piece, /) -> None:
        """Take the next piece of an answer that is not streamed, to encode its long lists early."""

    def whole(self, results: Seq[Result], /) -> Json:
        """Return the answer that is not streamed, after `keep` of all pieces; some lists may be EncodedList."""


@dataclass(frozen=True, slots=True)
class Api(Generic[Request]):
    """An HTTP API for generating text: its requests, answers and errors."""

    request: type[Request]
    writer: Callable[[Request, Head], Writer]
    problem: Callable[[Problem], Json]
    problem_event: Callable[[Problem], Event]
    """Makes the event of an error in a stream."""
    is_numbered: bool = False
    """Whether each event has a `sequence_number`."""
    last: bytes = b""
    """The bytes that end a stream, after its events."""
    ping: bytes = b": this stream is alive\n\n"
    """The bytes that say so after a silence; clients pass over comments."""


def choices_of(results: Seq[Result]) -> list[Result]:
    """Return the results of all choices: the samples of each prompt."""
    return [sample for result in results for sample in (result, *result.further_samples)]


def without_none(fields: Mapping[str, object]) -> Json:
    """Return the fields whose value is not None."""
    return {name: value for name, value in fields.items() if value is not None}
