"""EventStream: an answer as events, each with the id behind which it can be taken up again."""

from collections.abc import AsyncIterator, Iterable, Iterator

from services.gateway.generation.answers import Answers
from services.gateway.generation.piece import Piece
from services.gateway.generation.place import Missed, Places
from services.gateway.generation.writer import Event, Writer, choices_of


class EventStream:
    """The events of one answer. The writer is told all of it, so that its state is that of the first time."""

    def __init__(self, answers: Answers, writer: Writer, places: Places, known: Places | None) -> None:
        """`known` is what the reader has of an earlier time; raises Problem where that was another answer."""
        self._answers = answers
        self._writer = writer
        self._places = places
        self._missed = Missed(known, answers.num_choices)
        places.count = known.count if known else 0

    @property
    def count(self) -> int:
        """Events that have been told, those of earlier times included."""
        return self._places.count

    async def events(self) -> AsyncIterator[tuple[Event, int, str]]:
        """Events, each with its number from 0 and its id; raises OutriderError."""
        async for piece in self._answers.pieces():
            known, new = self._missed.split(piece)
            if known is not None:
                self._writer.piece(known)
                self._places.passed(known)
            if new is not None:
                for told in self._of_piece(new):
                    yield told
        results = self._answers.results()
        for choice, result in enumerate(choices_of(results)):
            for told in self._beside(choice, self._writer.end(choice, result)):
                yield told
        for event in self._writer.tail(results):
            self._places.tail += 1
            if not self._missed.drop(None):
                yield self._told(event)

    def _of_piece(self, piece: Piece) -> Iterator[tuple[Event, int, str]]:
        events = self._writer.piece(piece)
        if piece.is_of_prompt:
            yield from self._beside(piece.choice, events)
            return
        yield from self._beside(piece.choice, events[:-1])
        self._places.passed(piece)
        if events and not self._missed.drop(piece.choice):
            yield self._told(events[-1])

    def _beside(self, choice: int, events: Iterable[Event]) -> Iterator[tuple[Event, int, str]]:
        """Events that bring a choice no further."""
        for event in events:
            self._places.choices[choice].events += 1
            if not self._missed.drop(choice):
                yield self._told(event)

    def _told(self, event: Event) -> tuple[Event, int, str]:
        number = self._places.count
        self._places.count += 1
        return event, number, str(self._places)
