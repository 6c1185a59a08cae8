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
class ToolCall:
    """A whole tool call; `arguments` are a JSON object as the model wrote it."""

    name: str
    arguments: str


Delta = Reasoning | Content | ToolCall
