"""EventStream: an answer as events with ids; a client can resume the answer after each of them."""

from collections.abc import AsyncIterator, Iterable, Iterator

from services.gateway.generation.answers import Answers
from services.gateway.generation.choice_positions import ChoicePositions, Missed
from services.gateway.generation.piece import Piece
from services.gateway.generation.writer import Event, Writer, choices_of


class EventStream:
    """The events of one answer; a resumed answer skips the events that the client has.

    The writer is given the skipped pieces too, so that its state is the same as the first time.
    """

    def __init__(
        self, answers: Answers, writer: Writer, positions: ChoicePositions, known: ChoicePositions | None
    ) -> None:
        """`known` is how far the client got before; raises Problem if that belongs to another answer."""
        self._answers = answers
        self._writer = writer
        self._positions = positions
        self._missed = Missed(known, answers.num_choices)
        positions.count = known.count if known else 0

    @property
    def count(self) -> int:
        """The number of events that were sent, including those before a resumption."""
        return self._positions.count

    async def events(self) -> AsyncIterator[tuple[Event, int, str]]:
        """Yield the events, each with its number from 0 and its id; raises OutriderError."""
        async for piece in self._answers.pieces():
            known, new = self._missed.split(piece)
            if known is not None:
                self._writer.piece(known)
                self._positions.passed(known)
            if new is not None:
                for numbered in self._of_piece(new):
                    yield numbered
        results = self._answers.results()
        for choice, result in enumerate(choices_of(results)):
            for numbered in self._beside(choice, self._writer.end(choice, result)):
                yield numbered
        for event in self._writer.tail(results):
            self._positions.tail += 1
            if not self._missed.drop(None):
                yield self._numbered(event)

    def _of_piece(self, piece: Piece) -> Iterator[tuple[Event, int, str]]:
        events = self._writer.piece(piece)
        if piece.is_of_prompt:
            yield from self._beside(piece.choice, events)
            return
        yield from self._beside(piece.choice, events[:-1])
        self._positions.passed(piece)
        if events and not self._missed.drop(piece.choice):
            yield self._numbered(events[-1])

    def _beside(self, choice: int, events: Iterable[Event]) -> Iterator[tuple[Event, int, str]]:
        """Yield events that contain no tokens or text of a choice, unless the client has them."""
        for event in events:
            self._positions.choices[choice].events += 1
            if not self._missed.drop(choice):
                yield self._numbered(event)

    def _numbered(self, event: Event) -> tuple[Event, int, str]:
        number = self._positions.count
        self._positions.count += 1
        return event, number, str(self._positions)
