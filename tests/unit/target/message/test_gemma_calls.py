"""Gemma 4's calls follow the schemas of the tools, and its thoughts begin again after a result."""

import json
import re

import pytest

from services.engine.text.tokenizer import Tokenizer
from services.target.message.argument_types import ArgumentTypes
from services.target.message.deltas import ToolCall
from services.target.message.message_parser import MessageParser
from services.target.message.syntax import TOOL_SYNTAXES, MessageSyntax
from services.target.message.text_marks import joined_deltas
from services.target.message.thought import PromptThought, thought_of
from services.target.message.tool_grammar import BoundTool, CallRule, tool_grammar
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.unit.target.message.bound import OF_GEMMA, Bound
from tests.unit.target.message.families import syntax_of
from tests.unit.target.message.parts import parts_of


def tokenizer_with(controls: list[str]) -> Tokenizer:
    """One with these control tokens, without which the marks are like any other texts."""
    library = byte_level_tokenizer().from_str(byte_level_tokenizer().to_str())
    library.add_special_tokens(controls)
    return Tokenizer(library.to_str())


@pytest.mark.parametrize(
    ("prompt", "thought"),
    [
        ("<|channel>thought\nHm.<channel|>So.", PromptThought.CLOSED),
        ("<|channel>thought\nHm.<channel|><|tool_call>a<tool_call|>b<tool_response|>", PromptThought.NONE),
        ("<|channel>thought\n<channel|>", PromptThought.CLOSED),
        ("<|channel>thought\nHm", PromptThought.OPEN),
    ],
)
@pytest.mark.parametrize("controls", [OF_GEMMA, []], ids=["control tokens", "texts"])
def test_after_a_result_the_model_may_think_again(prompt, thought, controls):
    own = tokenizer_with(controls)
    syntax = MessageSyntax.find("", own, tool_parser="none", reasoning_parser="gemma4")
    assert thought_of(own.encode(prompt, add_special_tokens=False), own, syntax) is thought


PLACE = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string", "maxLength": 3}}}
TREE = {"type": "object", "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}}}
PLACES = {
    "type": "object",
    "properties": {
        "tree": {"$ref": "#/$defs/tree"},
        "Any": {},
        "sizes": {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 2, "maxItems": 3},
        "mixed": {"anyOf": [{"type": "array", "items": PLACE | {"required": ["b"]}}, {"type": "null"}]},
        "odd": {"enum": ["x", 1, ["y", {"k": True}], None]},
        "long": {"type": "string", "minLength": 8},
        "one of two": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], **PLACE, "additionalProperties": False},
        "both": {"allOf": [{"$ref": "#/$defs/named"}, {"properties": {"b": {"const": 1.0}}, "required": ["b"]}]},
        "a[b]:c": {"type": "boolean"},
        "none": False,
        "empty": {"type": "array", "items": False},
    },
    "required": ["Any", "odd"],
    "$defs": {"tree": TREE, "named": {"type": "object", "properties": {"a": {"enum": ["x", 1]}}, "required": ["c"]}},
}
PLAIN = {"Any": {"k": ['say "a", {b}', 1.5, None, False, {}, []]}, "odd": ["y", {"k": True}]}
NESTED = [
    PLAIN,
    {"Any": "", "odd": 1},
    {"Any": 0, "mixed": [{"a": "abc", "b": 1}, {"b": -2}], "odd": None},
    {"Any": 0, "mixed": None, "odd": "x", "sizes": [0, 1.5, 2], "tree": {"of": [{"of": []}]}},
    {"a[b]:c": True, "Any": {"a[b]": 0, "c d": ""}, "empty": [], "long": "12345678", "odd": 1},
    {"Any": 0, "both": {"a": "x", "b": 1, "c": []}, "odd": 1, "one of two": {"b": 1}},
    {"Any": 0, "both": {"b": 1.0, "c": None}, "odd": 1, "one of two": {"a": "", "b": 1}},
]
NOT_NESTED = [
    {"Any": 0},
    {"odd": 1},
    {"Any": 0, "odd": "y"},
    {"Any": 0, "odd": 2},
    {"Any": 0, "odd": ["y", {"k": False}]},
    {"odd": 1, "Any": 0},
    {"Any": 0, "mixed": [{"a": "abc"}], "odd": 1},
    {"Any": 0, "mixed": [{"a": "abcd", "b": 1}], "odd": 1},
    {"Any": 0, "mixed": [{"b": "1"}], "odd": 1},
    {"Any": 0, "mixed": [{"b": 1, "c": 1}], "odd": 1},
    {"Any": 0, "odd": 1, "sizes": [1]},
    {"Any": 0, "odd": 1, "sizes": [1, 2, 3, 4]},
    {"Any": 0, "odd": 1, "sizes": [1, -1]},
    {"Any": 0, "odd": 1, "tree": {"of": [{"of": []}, {}]}},
    {"Any": 0, "odd": 1, "tree": {"of": [{"of": 1}]}},
    {"Any": 0, "odd": 1, "other": 1},
    {"Any": 0, "long": "1234567", "odd": 1},
    {"Any": 0, "long": '1234<|"|>5678', "odd": 1},
    {"Any": 0, "odd": 1, "one of two": {}},
    {"Any": 0, "both": {"a": "x", "b": 1}, "odd": 1},
    {"Any": 0, "both": {"b": 2, "c": 1}, "odd": 1},
    {"Any": 0, "none": 1, "odd": 1},
    {"Any": 0, "empty": [1], "odd": 1},
]
REFUSED = [
    ({"properties": {"a": {"not": {}}}}, "'not' is not supported"),
    ({"properties": {"a": {"type": "array", "prefixItems": [{}]}}}, "'prefixItems' is not supported"),
    ({"properties": {"a": {"type": "array", "minItems": 3, "maxItems": 1}}}, "'minItems' is 3, and at most 1 are"),
    ({"properties": {"a": {"type": "array", "minItems": 1, "items": False}}}, "'minItems' is 1, and at most 0 are"),
    ({"properties": {"a": {"type": "float"}}}, '"float" is no type of JSON'),
    ({"properties": {"a": {"type": "string", "enum": [1]}}}, "no value fits the schema"),
    ({"properties": {"a": False}, "required": ["a"]}, "the field 'a' is required and not allowed"),
    ({"required": ["a"], "additionalProperties": False}, "the field 'a' is required and not allowed"),
    ({"allOf": [{"type": "object"}, {"type": "string"}]}, "'type' is in several parts of a schema"),
    ({"allOf": [{"properties": {"a": {}}}, {"properties": {"a": True}}]}, "the field 'a' is in several parts"),
    ({"properties": {"a": {"$ref": "#/properties/a", "title": "A"}}}, "a schema refers to itself, or is nested"),
    ({"properties": {"a": {"$ref": "#/$defs/a"}}}, "'$ref' refers to '#/$defs/a', which is no part of the schema"),
    ({"$ref": 5}, "'$ref' refers to '5', which is no part of the schema"),
    ({"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {}], "x": 1}}}, "their grammar has more than"),
    ({"properties": {"a" * 1025: {}}}, "the name of a field has 1025 characters; it may have at most 1024"),
]


@pytest.mark.parametrize(("schema", "problem"), REFUSED, ids=[problem[:40] for _, problem in REFUSED])
def test_a_schema_that_cannot_be_followed_is_refused(schema, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        Bound("gemma4", PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])


def test_a_call_is_the_same_wherever_a_long_key_is_cut():
    for text in ('<|"|>k<|"|>' + " " * 1200 + ":1}", f'<|"|>{"k" * 1100}<|"|>:1}}', "k" * 1100 + ":1}"):
        whole, pieces = (
            MessageParser(syntax_of("gemma4"), ArgumentTypes({"f": {}}), is_thinking=False) for _ in range(2)
        )
        call = f"<|tool_call>call:f{{{text}<tool_call|>"
        told = [delta for character in call for delta in pieces.feed(character)]
        assert joined_deltas(told + pieces.finish()) == joined_deltas(whole.feed(call) + whole.finish())


def test_a_grammar_of_many_tools_is_as_small_as_that_of_others():
    properties = {f"field_{number}": {"type": "string", "description": "Some words."} for number in range(8)}
    schema = {"type": "object", "properties": properties, "required": [*properties][:4]}
    sizes = {}
    for family in ("hermes", "gemma4"):
        rule = CallRule(tools=[BoundTool(f"f{n}", schema) for n in range(20)], is_required=True, is_parallel=True)
        syntax = syntax_of(family)
        source = tool_grammar(rule, TOOL_SYNTAXES[family], syntax, PromptThought.CLOSED, most_bytes=1 << 16)
        sizes[family] = source.num_bytes
    assert sizes["gemma4"] < 1.5 * sizes["hermes"]


@pytest.mark.parametrize("controls", [OF_GEMMA, []], ids=["control tokens", "texts"])
def test_values_within_values_follow_their_schemas(controls):
    """Whether the mark around strings is a control token, or like any other text."""
    own = tokenizer_with(controls)
    bound = Bound("gemma4", PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", PLACES)], own=own)
    for arguments in NESTED:
        call = bound.calls(("set", json.dumps(arguments)))
        assert bound.allows(call), arguments
        parser = MessageParser(bound.syntax, ArgumentTypes({"set": PLACES}), is_thinking=False)
        (read,) = parts_of(parser.feed(call) + parser.finish())
        assert isinstance(read, ToolCall)
        assert json.loads(read.arguments) == arguments
    assert not any(bound.allows(bound.calls(("set", json.dumps(arguments)))) for arguments in NOT_NESTED)
    whole = bound.calls(("set", json.dumps(PLAIN)))
    nested = bound.calls(("set", json.dumps(NESTED[4])))
    assert '<|"|>a[b]:c<|"|>:' in nested
    assert not bound.allows(nested.replace('<|"|>a[b]:c<|"|>:', "a[b]:c:"))
    for start, end in [("Any:{", "Any:"), ('<|"|>say', "say"), ("1.5", "1."), ("]}<tool", "]<tool"), ("odd", "Odd")]:
        assert not bound.allows(whole.replace(start, end, 1))
