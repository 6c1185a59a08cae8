"""Schemas as the library follows them: without formats that it does not know, rounded numbers and keys that never come.

Each changed schema allows the same texts as the original one.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any

HasMoreKeys = Callable[[str, Seq[str]], bool]
"""Whether a pattern of keys matches any key apart from these."""

_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
_VALUES, _BY_NAME = (
    {"const", "enum", "default", "examples"},
    {"properties", "patternProperties", "$defs", "definitions"},
)
_SIGNS = {"maximum": 1, "exclusiveMaximum": 1, "minimum": -1, "exclusiveMinimum": -1}  # of a number beyond the bound
_INTEGER_RANGE = 1 << 63  # the library's integers; bounds beyond them do not count
_IN_LARK = re.compile(r"%json\s*(?=\{)")


def held_schema(schema: object, has_more_keys: HasMoreKeys) -> object:
    """Return a schema that the library can follow as JSON Schema defines it.

    An unknown format is an annotation there (JSON Schema 2020-12, validation, 7.2.3). Raises ValueError for a number
    that the library would round, or if the schema is nested too deeply.
    """
    try:
        return _held(schema, has_more_keys)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def moved_schema(schema: object, path: str) -> object:
    """Return a schema whose references hold where it is a part of another one, at `path` from the other's root."""
    if isinstance(schema, list):
        return [moved_schema(each, path) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {field: value if field in _VALUES else moved_schema(value, path) for field, value in schema.items()}
    if isinstance(reference := moved.get("$ref"), str) and reference.startswith("#"):
        moved["$ref"] = f"#{path}{reference[1:]}"
    return moved


def held_schemas_in_lark(text: str, has_more_keys: HasMoreKeys) -> str:
    """Return a Lark grammar with its JSON schemas as `held_schema` returns them."""
    pieces, start = [], 0
    for match in _IN_LARK.finditer(text):
        if match.end() < start:  # inside a schema
            continue
        try:
            schema, end = json.JSONDecoder().raw_decode(text, match.end())
        except (ValueError, RecursionError):  # the library says what is wrong
            continue
        if (held := held_schema(schema, has_more_keys)) != schema:
            pieces += [text[start : match.end()], json.dumps(held)]
            start = end
    return "".join([*pieces, text[start:]])


def _held(schema: object, has_more_keys: HasMoreKeys) -> object:
    if isinstance(schema, list):
        return [_held(each, has_more_keys) for each in schema]
    if not isinstance(schema, dict):
        return schema
    for field in ("const", "enum"):
        _check_values(field, schema.get(field))
    _check_bounds(schema)
    held = {
        field: value if field in _VALUES else _held_field(field, value, has_more_keys)
        for field, value in schema.items()
        if not (field == "format" and isinstance(value, str) and value not in _FORMATS)
    }
    return _without_used_keys(held, has_more_keys)


def _held_field(field: str, value: object, has_more_keys: HasMoreKeys) -> object:
    if field in _BY_NAME and isinstance(value, dict):
        return {name: _held(each, has_more_keys) for name, each in value.items()}
    return _held(value, has_more_keys)


def _check_values(field: str, value: object) -> None:
    """Raise ValueError for a number that the library, which reads numbers as float64, would write in another way."""
    if isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            _check_values(field, each)
    elif isinstance(value, int | float) and _rounding(value):
        raise ValueError(
            f"{field} has {_short(value)}, which would be rounded; beyond 2^53 some numbers cannot be held"
        )


def _check_bounds(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for a bound that the library would round to one that allows more numbers."""
    for field, sign in _SIGNS.items():
        bound = schema.get(field)
        if not isinstance(bound, int | float) or _rounding(bound) * sign <= 0:
            continue
        if schema.get("type") != "integer" or abs(bound) < _INTEGER_RANGE - 1:
            raise ValueError(f"{field} is {_short(bound)}, which would be rounded; beyond 2^53 some cannot be held")


def _rounding(number: float) -> float:
    """Return a number with the sign of float64's error in an integer or float; infinite if it is too large."""
    try:
        as_float = float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    return as_float if math.isinf(as_float) else (as_float > number) - (as_float < number)


def _short(number: float) -> str:
    return text if len(text := str(number)) < 40 else f"{text[:40]}..."


def _without_used_keys(schema: dict[str, Any], has_more_keys: HasMoreKeys) -> dict[str, Any]:
    """An object's schema without patterns that match declared keys only, whose schemas these keys get too.

    The library writes a comma before keys of a pattern, even if none is left.
    """
    patterns, declared = schema.get("patternProperties"), schema.get("properties")
    if (
        not isinstance(patterns, dict)
        or not isinstance(declared, dict)
        or schema.get("additionalProperties") is not False
    ):
        return schema
    properties, left = dict(declared), dict(patterns)
    for pattern, of_pattern in patterns.items():
        if has_more_keys(pattern, [*declared]):
            continue
        del left[pattern]
        for name in declared:
            if has_more_keys(pattern, [other for other in declared if other != name]):
                properties[name] = {"allOf": [properties[name], of_pattern]}
    return {**schema, "properties": properties, "patternProperties": left}
