"""Deltas: what follows in a message, part by part."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More of what it says."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call; `arguments` are a JSON object as the model wrote it."""

    name: str
    arguments: str


Delta = Reasoning | Content | ToolCall
