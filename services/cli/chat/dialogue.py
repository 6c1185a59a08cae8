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

    def shorten(self, fits: Callable[[list[Message]], bool]) -> int:
        """Drop the oldest questions with their answers until the rest fits, and nothing if not even the last one does.

        Returns how many are dropped.
        """
        questions = [index for index, message in enumerate(self._said) if message.role == "user"]
        for dropped, start in enumerate(questions):
            if fits(self._from(start)):
                del self._said[:start]
                return dropped
        return 0

    def _from(self, start: int) -> list[Message]:
        return [*([Message("system", self.system)] if self.system else []), *self._said[start:]]
