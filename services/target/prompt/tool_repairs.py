"""ToolRepairs: changes to the definitions of tools that a template refuses, such as ones without properties."""

import json
from collections.abc import Iterator
from typing import Any

Tool = dict[str, Any]

_BY_NAME = ("properties", "$defs", "definitions", "patternProperties")  # fields that hold schemas by name
_NO_SCHEMAS = ("const", "enum", "examples")


def repaired_tools(tools: list[Tool] | None) -> Iterator[list[Tool] | None]:
    """Yield the tools as they are, then with a description each, then with properties and defaults that are texts."""
    yield tools
    if tools is None:
        return
    described = [_with_function(tool, {"description": "", **tool["function"]}) for tool in tools]
    if described != tools:
        yield described
    completed = [_with_function(tool, _completed(tool["function"])) for tool in described]
    if completed != described:
        yield completed


def _with_function(tool: Tool, function: dict[str, Any]) -> Tool:
    return {**tool, "function": function}


def _completed(function: dict[str, Any]) -> dict[str, Any]:
    parameters = _spelled(function.get("parameters", {}))
    return {**function, "parameters": {"type": "object", "properties": {}, **parameters}}


def _spelled(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with each default as a text, which some templates take for one."""
    return {name: _field(name, value) for name, value in schema.items()}


def _field(name: str, value: object) -> object:
    if name == "default":
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and name not in _NO_SCHEMAS:
        return [_spelled(part) if isinstance(part, dict) else part for part in value]
    if not isinstance(value, dict) or name in _NO_SCHEMAS:
        return value
    if name in _BY_NAME:
        return {each: _spelled(part) if isinstance(part, dict) else part for each, part in value.items()}
    return _spelled(value)
