"""Deliveries: carries the events that a step has put into its generations' sinks to their readers."""

from typing import Protocol


class Deliveries(Protocol):
    """Delivers on a thread of its own."""

    def flush(self) -> None:
        """Deliver all events that were put so far; called by the engine thread."""

    def close(self) -> None:
        """Deliver the rest, and end."""
