"""An answer of a family's model, and the message in it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from services.target.message.deltas import Delta, ToolCall

SCHEMAS: dict[str, Mapping[str, Any]] = {
    "f": {},
    "g.h": {},
    "t.ypes": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "flag": {"type": "boolean"},
            "maybe": {"$ref": "#/$defs/maybe"},
        },
        "$defs": {"maybe": {"type": ["string", "null"]}},
    },
}
NO_TOOLS: dict[str, Mapping[str, Any]] = {}


class Answer(NamedTuple):
    """A text in a family's syntax, its parts, and facts of its request."""

    family: str
    text: str
    parts: list[Delta]
    is_thinking: bool = False  # whether the prompt has begun a thought
    schemas: Mapping[str, Mapping[str, Any]] = SCHEMAS
    has_form: bool = False


F, G = ToolCall("f", '{"a": 1}'), ToolCall("g.h", "{}")
TYPED = ToolCall("t.ypes", '{"text": "12", "count": 12, "any": [1, "a"]}')
