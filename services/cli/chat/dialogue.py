"""Dialogue: what has been said in a conversation, and what of it still fits."""

from collections.abc import Callable

from outrider import Message


class Dialogue:
    """Questions and answers in turn, behind what the system says."""

    def __init__(self, system: str | None = None) -> None:
        self.system = system
        self._said: list[Message] = []

    @property
    def messages(self) -> list[Message]:
        """All of it, as a prompt."""
        return self._from(0)

    def add(self, message: Message) -> None:
        """Put a message behind the others."""
        self._said.append(message)

    def take_back(self) -> None:
        """Drop the last message."""
        self._said.pop()

    def reset(self) -> None:
        """Drop what was said; the system's words stay."""
        self._said.clear()

    def surplus(self, fits: Callable[[list[Message]], bool]) -> int:
        """How many of the oldest questions have to go, with their answers, until the rest fits.

        None has to if not even the last one does.
        """
        starts = self._starts()
        return next((count for count, start in enumerate(starts) if fits(self._from(start))), 0)

    def behind(self, questions: int) -> list[Message]:
        """What is left as a prompt without so many of the oldest questions and their answers."""
        return self._from(self._starts()[questions])

    def drop(self, questions: int) -> None:
        """Forget so many of the oldest questions, with their answers."""
        del self._said[: self._starts()[questions]]

    def _starts(self) -> list[int]:
        return [index for index, message in enumerate(self._said) if message.role == "user"]

    def _from(self, start: int) -> list[Message]:
        return [*([Message("system", self.system)] if self.system else []), *self._said[start:]]
