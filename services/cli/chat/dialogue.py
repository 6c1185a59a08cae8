"""Dialogue: the messages of a conversation; when it gets too long, the oldest are dropped."""

from collections.abc import Callable

from outrider import Message


class Dialogue:
    """Questions and answers in turn, after the system message."""

    def __init__(self, system: str | None = None) -> None:
        self.system = system
        self._messages: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """All messages, as a prompt."""
        return self._from(0)

    def add(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def take_back(self) -> None:
        """Drop the last message."""
        self._messages.pop()

    def reset(self) -> None:
        """Drop all messages except the system message."""
        self._messages.clear()

    def surplus(self, fits: Callable[[list[Message]], bool]) -> int:
        """Return how many of the oldest questions must be dropped, with their answers, so that the rest fits.

        Returns 0 if not even the last question alone fits.
        """
        starts = self._starts()
        return next((count for count, start in enumerate(starts) if fits(self._from(start))), 0)

    def without(self, questions: int) -> list[Message]:
        """Return the prompt without this number of the oldest questions and their answers."""
        return self._from(self._starts()[questions])

    def drop(self, questions: int) -> None:
        """Drop this number of the oldest questions, with their answers."""
        del self._messages[: self._starts()[questions]]

    def _starts(self) -> list[int]:
        return [index for index, message in enumerate(self._messages) if message.role == "user"]

    def _from(self, start: int) -> list[Message]:
        return [*([Message("system", self.system)] if self.system else []), *self._messages[start:]]
