"""Call texts: parses the tool calls in a text between marks."""

import json
import re
from collections.abc import Iterator, Set

from services.target.message.deltas import ToolCall

_SPACE = re.compile(r"[ \t\n\r]*")
_ARGUMENTS = ("arguments", "parameters")


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse)
"""Reads JSON without NaN and the infinities, which Python's own reads too."""


def read_calls(name: str | None, text: str, *, tools: Set[str] | None = None) -> list[ToolCall]:
    """The calls of a JSON text: with `name` the text is that tool's arguments, otherwise an object or a list of objects
    that have a name and arguments. With `tools`, the name must be one of them, and the arguments may not be left out.

    Raises ValueError if the text is no call.
    """
    try:
        value = DECODER.decode(text)
        if name is not None:
            return [_checked(ToolCall(name, _arguments(text)))]
        if value:
            texts = _items(text) if isinstance(value, list) else [text]
            return [_checked(_read_call(dict(_fields(one)), tools)) for one in texts]
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    raise ValueError("it makes no call")


def _checked(call: ToolCall) -> ToolCall:
    """The call; raises UnicodeEncodeError, a ValueError, for half a surrogate pair, which JSON may escape."""
    (call.name + call.arguments).encode()
    return call


def _read_call(fields: dict[str, str], tools: Set[str] | None) -> ToolCall:
    name = DECODER.decode(fields.get("name", "null"))
    if not isinstance(name, str) or not name:
        raise ValueError("it has no name")
    arguments = next((fields[key] for key in _ARGUMENTS if key in fields), None)
    if tools is not None and (name not in tools or arguments is None):
        raise ValueError("it is an object like any other")
    return ToolCall(name, _arguments(arguments or "{}"))


def _arguments(text: str) -> str:
    """The arguments as an object; some models write null for none, or write the object as a JSON string."""
    value = DECODER.decode(text)
    if isinstance(value, str):
        text, value = value, DECODER.decode(value) if value.strip() else None
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise ValueError("its arguments are no object")
    return text


def _items(text: str) -> Iterator[str]:
    """The text of each item of a list."""
    position = _after(text, 0)
    while text[position] != "]":
        start, (_, position) = position, DECODER.raw_decode(text, position)
        yield text[start:position]
        position = _next(text, position)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """An object's keys and the texts of their values; raises ValueError for a text that is no object."""
    if not text.startswith("{"):
        raise ValueError("it is no object")
    position = _after(text, 0)
    while text[position] != "}":
        key, position = DECODER.raw_decode(text, position)
        start = _after(text, _skip(text, position))
        _, position = DECODER.raw_decode(text, start)
        yield key, text[start:position]
        position = _next(text, position)


def _next(text: str, position: int) -> int:
    """The position of the next item, or of the closing bracket."""
    position = _skip(text, position)
    return _after(text, position) if text[position] == "," else position


def _after(text: str, position: int) -> int:
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()
