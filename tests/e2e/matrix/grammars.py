"""The grammars of the matrix: some that its answers never come to the end of, and some that they do."""

import json
from typing import Any

ENDLESS = r"""
start: entry+
entry: "- " name " = " value ";" "\n"?
value: name | /[0-9]{1,4}/ | "[" value (", " value)* "]" | "\"" /[^"\\\n]{0,12}/ "\""
name: /[a-z_]{1,9}/
"""  # a grammar that lets no text end, in some places of one token, in others of many

_MANY = 200  # entries, more than an answer has room for
_WORD = {"type": "string", "pattern": "^[a-z]{2,9}$"}
_TREE = {
    "type": "object",
    "properties": {"v": {"type": "number", "minimum": -1, "maximum": 50}, "of": {"$ref": "#/$defs/trees"}},
    "required": ["v"],
    "additionalProperties": False,
}
_PAIR = {"type": "array", "items": {"type": "string", "pattern": "^[a-z ]{8,12}$"}, "minItems": 2, "maxItems": 3}


def _many(items: dict[str, Any], **others: Any) -> dict[str, Any]:
    return _json({"type": "array", "items": items, "minItems": _MANY, **others}, whitespace_pattern=" ?")


def _json(schema: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"json_schema": json.dumps(schema | {"x-guidance": options})}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_ENDLESS: tuple[dict[str, Any], ...] = (
    {"lark": ENDLESS},
    {"regex": r"([a-z]{2,5}[,;] )*"},
    _many({"type": "integer", "minimum": -50, "maximum": 999}),
    _many({"type": "array", "items": {"enum": ["a", "bb", 1, None, "x y"]}, "minItems": 1, "maxItems": 2}),
    _many({"type": "object", "properties": {"a": _WORD, "b": {"type": "boolean"}}, "additionalProperties": False}),
    _many({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": _TREE, "trees": {"type": "array", "items": _TREE}}}),
    _many({"anyOf": [_WORD, {"type": "number", "minimum": 0, "maximum": 9}, {"const": {"k": ["v"]}}]}),
)
_ENDING: tuple[dict[str, Any], ...] = (
    _json(
        _object(
            id={"type": "string", "pattern": "^[a-f]{4}-[0-9]{4}$"},
            note={"type": "string", "pattern": "^[a-z ,.]{30,50}$"},
            ok={"type": "boolean"},
        ),
        whitespace_flexible=False,
    ),
    _json(
        {**_object(a={"$ref": "#/$defs/p"}, b={"$ref": "#/$defs/p"}), "$defs": {"p": _PAIR}}, whitespace_flexible=False
    ),
    {
        "choice": [
            "yes, " * 12 + "and so it ends",
            "no, " * 16 + "and so it ends",
            "yes, " * 12 + "or perhaps not at all",
        ]
    },
)  # each has less than 128 bytes, and so less tokens


def grammar_of(number: int) -> dict[str, Any]:
    """The client's options for one of ten grammars, which come again and again."""
    number %= len(_ENDLESS) + len(_ENDING)
    if number % 3 == 2:
        return {**_ENDING[number // 3], "ignore_eos": False}
    return {**_ENDLESS[number - number // 3], "ignore_eos": True}
