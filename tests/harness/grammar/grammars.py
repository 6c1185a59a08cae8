"""Grammars for tests, and texts that follow them at random."""

import functools
import json
import random
import re
from typing import Any

import numpy as np

from services.engine.grammar.compiler import GrammarCompiler
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.grammar.state import GrammarState
from services.engine.text.tokenizer import Tokenizer

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "kind": {"enum": ["circle", "square"]},
            "sizes": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        },
        "required": ["name", "kind", "sizes"],
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False},
    }
)
_NODE = {
    "type": "object",
    "properties": {
        "v": {"type": "integer", "minimum": -5, "maximum": 120},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
    },
    "required": ["v", "next"],
    "additionalProperties": False,
}
_WORD = {"type": "string", "pattern": "^[a-c]{1,3}$"}
_SPACED = {"whitespace_pattern": " ?"}  # more would keep a text from its end
_SCHEMAS: dict[str, dict[str, Any]] = {
    "array": {
        "type": "object",
        "properties": {"t": {"type": "array", "items": _WORD, "maxItems": 2}},
        "required": ["t"],
        "additionalProperties": False,
    },
    "nested": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "p": {"type": "array", "items": {"enum": [1, 2.5, None, "x"]}, "minItems": 1, "maxItems": 3}
            },
            "required": ["p"],
            "additionalProperties": False,
        },
        "minItems": 1,
        "maxItems": 2,
    },
    "reference": {"$ref": "#/$defs/node", "$defs": {"node": _NODE}},
    "pattern": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-f]{2}-[0-9]{2}$"},
            "ok": {"type": "boolean"},
            "of": {"const": {"a": ["b", 2]}},
        },
        "required": ["id", "of"],
        "additionalProperties": False,
    },
    "optional": {
        "type": "object",
        "properties": {name: {"type": "array", "items": _WORD, "minItems": 1, "maxItems": 2} for name in "abc"},
        "required": ["b"],
        "additionalProperties": False,
    },
}
SOURCES = {
    "json_schema": GrammarSource(GrammarKind.JSON_SCHEMA, (SCHEMA,)),
    **{
        name: GrammarSource(GrammarKind.JSON_SCHEMA, (json.dumps(schema | {"x-guidance": _SPACED}),))
        for name, schema in _SCHEMAS.items()
    },
    "any json": GrammarSource(GrammarKind.JSON_SCHEMA, ("{}",)),
    "early end": GrammarSource(GrammarKind.REGEX, ("([a-z]{2,5}[,;] ){9,99}[a-z]*",), prefers_end=True),
    "regex": GrammarSource(GrammarKind.REGEX, (r"(ab|abc(d|é)*)+ [0-9]{2,4}!?",)),
    "lark": GrammarSource(
        GrammarKind.LARK, ('start: expr\nexpr: /[0-9]{1,3}/ | "(" expr ("+" | " minus ") expr ")" | /[a-z]{1,4}/\n',)
    ),
    "choice": GrammarSource(GrammarKind.CHOICE, ("yes", "yes, of course", "no\n", "a.b|c (d) $1", "\\d é 東")),
}


def follows(name: str, text: str) -> bool:
    """Whether a whole text is one of a grammar's, by other means than ours."""
    source = SOURCES[name].texts
    if SOURCES[name].kind is GrammarKind.JSON_SCHEMA:
        schema = json.loads(source[0])
        return _satisfies(json.loads(text), schema, schema.get("$defs", {}))
    match name:
        case "regex":
            return re.fullmatch(source[0], text) is not None
        case "early end":  # perhaps amid a token
            return re.fullmatch("([a-z]{2,5}[,;] ){9}[a-z]*", text) is not None
        case "lark":
            return _is_expression(text)
    return text in source


def _satisfies(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Whether a value has what those keywords ask for that the schemas here have."""
    if "$ref" in schema:
        return _satisfies(value, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return any(_satisfies(value, one, definitions) for one in schema["anyOf"])
    allowed_values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed_values is not None:
        return value in allowed_values
    match schema.get("type"):
        case "object":
            return isinstance(value, dict) and _is_object(value, schema, definitions)
        case "array":
            is_long_enough = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            return is_long_enough and all(_satisfies(item, schema["items"], definitions) for item in value)
        case "string":
            is_short_enough = len(value) <= schema.get("maxLength", len(value))
            return is_short_enough and re.search(schema.get("pattern", ""), value) is not None
        case "integer":
            return isinstance(value, int) and schema.get("minimum", value) <= value <= schema.get("maximum", value)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
    return True


def _is_object(value: dict[str, Any], schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    properties = schema["properties"]
    is_whole = {*schema["required"]} <= value.keys() <= properties.keys()
    return is_whole and all(_satisfies(value[name], properties[name], definitions) for name in value)


def _is_expression(text: str) -> bool:
    text = re.sub(r"[0-9]{1,3}|[a-z]{1,4}", "e", text.replace(" minus ", "+"))
    while (shorter := text.replace("(e+e)", "e")) != text:
        text = shorter
    return text == "e"


@functools.cache
def compiler(tokenizer: Tokenizer, vocab_size: int) -> GrammarCompiler:
    """The compiler of a vocabulary, made once."""
    return GrammarCompiler(tokenizer, vocab_size=vocab_size)


def compiled(name: str, tokenizer: Tokenizer, vocab_size: int) -> Grammar:
    """One of SOURCES."""
    return compiler(tokenizer, vocab_size).compile(SOURCES[name])


def allowed(mask: np.ndarray, vocab_size: int) -> list[int]:
    """The ids whose bits are set in one row."""
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:vocab_size]).tolist()


def random_walk(
    state: GrammarState, rng: random.Random, vocab_size: int, *, stop_id: int, length: int
) -> tuple[list[int], list[np.ndarray]]:
    """A random text of at most so many tokens: its ids but the stop, and the mask before each and after the last."""
    token_ids: list[int] = []
    masks = [state.masks()[0]]
    while len(token_ids) < length:
        token_id = rng.choice(allowed(masks[-1], vocab_size))
        if token_id == stop_id:
            break
        state.advance([token_id])
        token_ids.append(token_id)
        masks.append(state.masks()[0])
    return token_ids, masks
