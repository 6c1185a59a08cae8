"""Schemas are followed as JSON Schema defines them, or refused with a reason."""

import json
from typing import Any

import pytest

from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.schema import _FORMATS
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.grammar.state import GrammarState
from tests.harness.grammar.grammars import allowed, compiler
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer


def begin(schema: object, *, in_lark: bool) -> GrammarState:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    source = GrammarSource(GrammarKind.JSON_SCHEMA, (text,))
    if in_lark:
        source = GrammarSource(GrammarKind.LARK, (f'start: "none %json {{" | a\na: %json {text}\n',))
    return compiler(byte_tokenizer(), VOCAB_SIZE).compile(source).begin(stop_ids=[END])


def allows(schema: object, text: str, *, in_lark: bool) -> bool:
    state = begin(schema, in_lark=in_lark)
    state.advance(text.encode())
    return not state.is_rejected and state.may_end


BOTH = pytest.mark.parametrize("in_lark", [False, True])
UNKNOWN = ["password", "path", "binary", "byte", "decimal", "int64", "regex", "iri", "my own"]


@BOTH
@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_format_is_an_annotation(name: str, in_lark: bool):
    of_any = {"type": ["string", "null"], "format": name}
    assert allows({"type": "object", "properties": {"a": of_any}}, '{"a": "x"}', in_lark=in_lark)
    assert allows({"$ref": "#/$defs/format", "$defs": {"format": of_any}}, '"x"', in_lark=in_lark)
    assert allows({"anyOf": [of_any, {"format": name}]}, "1", in_lark=in_lark)


@pytest.mark.parametrize("name", sorted(_FORMATS))
def test_a_known_format_is_followed(name: str):
    assert not allows({"type": "string", "format": name}, '"+"', in_lark=False)


@BOTH
def test_names_and_values_that_look_like_formats_stay(in_lark: bool):
    named = {"type": "object", "properties": {"format": {"const": {"format": "path"}}, "path": {}}}
    named |= {"required": ["format", "path"], "additionalProperties": False}
    assert allows(named, '{"format": {"format": "path"}, "path": 1}', in_lark=in_lark)
    assert not allows(named, '{"path": 1}', in_lark=in_lark)


BIG = 2**53 + 1
BAD_NUMBERS = {
    "const": {"const": BIG},
    "negative": {"const": -BIG},
    "long": {"const": 10**400},
    "nested": {"enum": [1, {"a": [BIG]}]},
    "property": {"type": "object", "properties": {"a": {"const": BIG}}},
    "too large": '{"const": 1e400}',
    "maximum": {"type": "integer", "maximum": BIG + 2},
    "minimum": {"type": "integer", "minimum": BIG},
    "a number's maximum": {"type": "number", "maximum": 2**63 - 1},
}


@BOTH
@pytest.mark.parametrize("name", BAD_NUMBERS)
def test_a_number_that_would_be_rounded_is_refused(name: str, in_lark: bool):
    with pytest.raises(GrammarError, match="rounded"):
        begin(BAD_NUMBERS[name], in_lark=in_lark)


@pytest.mark.parametrize("number", [0.1, 2**53, -(2**53), 2**53 + 2, 10**22])
def test_a_number_that_can_be_held_is_written_exactly(number: float):
    assert allows({"const": number, "format": "path"}, str(number), in_lark=False)


def test_the_bounds_of_usual_integers_are_held():
    bounds = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    assert allows(bounds, str(2**63 - 1), in_lark=False)
    assert not allows(bounds, str(2**63), in_lark=False)
    assert allows({**bounds, "maximum": 2**64 - 1}, "1", in_lark=False)


def after(schema: dict[str, Any], text: str) -> str:
    """The bytes that may come after a text."""
    state = begin({"type": "object", "x-guidance": {"whitespace_flexible": False}, **schema}, in_lark=False)
    state.advance(text.encode())
    return bytes(sorted(token_id for token_id in allowed(state.masks()[0], VOCAB_SIZE) if token_id != END)).decode()


SCORE: dict[str, Any] = {"properties": {"score": {"type": "boolean"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("patterns", "further"),
    [
        (["^score$"], "}"),
        (["^sc(o)re$", "^x"], ",}"),
        (["score"], ",}"),
        (["^(score|other)$"], ",}"),
        (["^(score|score)$"], "}"),
    ],
)
def test_no_comma_comes_where_no_key_can(patterns: list[str], further: str):
    schema = {**SCORE, "patternProperties": {key: {} for key in patterns}}
    assert after(schema, '{"score":true') == further
    assert after({**schema, "additionalProperties": True}, '{"score":true') == ",}"


def test_a_key_of_a_used_pattern_still_follows_its_schema():
    schema = {**SCORE, "patternProperties": {"^score$": {"enum": [True, 1]}}}
    assert after(schema, '{"score":') == "t"
