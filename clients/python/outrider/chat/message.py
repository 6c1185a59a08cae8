"""Messages: what is said in a conversation, and what follows in one that is being written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool."""

    name: str
    arguments: str
    """A JSON object, as JSON; only its beginning, if the call was cut off or is malformed."""
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


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """The beginning of a tool call."""

    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the arguments of the call that has begun."""

    text: str


MessageDelta = ReasoningDelta | ContentDelta | ToolCallStart | ArgumentsDelta | ToolCall
"""A call comes in parts while it is generated, and then as a whole: `ToolCall`."""


def message_of(deltas: Iterable[MessageDelta]) -> Message:
    """Join deltas to the assistant's message, which can be appended to the conversation."""
    deltas = [*deltas]
    return Message(
        "assistant",
        "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta)),
        tuple(delta for delta in deltas if isinstance(delta, ToolCall)),
        reasoning_content="".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) or None,
    )
