"""PromptSource: what a prompt is made from, a text or a conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `add_special_tokens` puts around it what the checkpoint wants around a prompt."""

    text: str
    add_special_tokens: bool

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return len(self.text.encode())


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages of `role` and `content`."""

    messages: Sequence[Mapping[str, str]]

    @property
    def num_bytes(self) -> int:
        """Their size together."""
        return sum(len(text.encode()) for message in self.messages for text in message.values())


PromptSource = Text | Conversation


class PromptError(ValueError):
    """A prompt that cannot be encoded; the message says why."""


class TooManyTokensError(PromptError):
    """A prompt of more tokens than were asked for."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__(f"is {num_tokens} tokens long")
