"""Messages: what is said in a conversation, and what follows in one that is being written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool."""

    name: str
    arguments: str
    """A JSON object, as JSON."""
    id: str | None = None
    """By which an answer refers to it; the model gives none."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation: who speaks ("system", "user", "assistant", "tool", ...) and what is said."""

    role: str
    content: str | Sequence[str] = ""
    """Text, or several parts of it."""
    tool_calls: Sequence[ToolCall] = ()
    tool_call_id: str | None = None
    """The call that a tool answers."""
    name: str | None = None
    reasoning_content: str | None = None
    """What was thought before."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More of what it says."""

    text: str


MessageDelta = ReasoningDelta | ContentDelta | ToolCall
"""A call comes as a whole."""


def message_of(deltas: Iterable[MessageDelta]) -> Message:
    """Join deltas to the assistant's message, which can be appended to the conversation."""
    deltas = [*deltas]
    return Message(
        "assistant",
        "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta)),
        tuple(delta for delta in deltas if isinstance(delta, ToolCall)),
        reasoning_content="".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) or None,
    )
