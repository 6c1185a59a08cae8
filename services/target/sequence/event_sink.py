"""EventSink: where the engine puts the events of one generation."""

from typing import Protocol

from services.engine.events import Event


class EventSink(Protocol):
    """Both members are for the engine thread."""

    @property
    def is_full(self) -> bool:
        """Whether as many tokens wait for the reader as may: the generation pauses until the engine is woken."""

    def put(self, event: Event) -> None:
        """Add an event."""
