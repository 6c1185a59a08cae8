"""Deltas: the next parts of a message while it is generated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More text of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More text of the message's content."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The beginning of a tool call, whose arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More text of the arguments of the call that has begun."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The end of a tool call, which repeats it as a whole.

    `arguments` are a JSON object as the model wrote it, or the beginning of one if the call is cut off or malformed.
    """

    name: str
    arguments: str


Delta = Reasoning | Content | CallStart | Arguments | ToolCall
