"""Gemma 4's calls follow the schemas of the tools, and its thoughts begin again after a result."""

import json

import pytest

from services.engine.text.tokenizer import Tokenizer
from services.target.message.argument_types import ArgumentTypes
from services.target.message.deltas import ToolCall
from services.target.message.message_parser import MessageParser
from services.target.message.syntax import MessageSyntax
from services.target.message.thought import PromptThought, thought_of
from services.target.message.tool_grammar import BoundTool
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.unit.target.message.bound import OF_GEMMA, Bound
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
    },
    "required": ["Any", "odd"],
    "$defs": {"tree": TREE},
}
PLAIN = {"Any": {"k": ['say "a", {b}', 1.5, None, False, {}, []]}, "odd": ["y", {"k": True}]}
NESTED = [
    PLAIN,
    {"Any": "", "odd": 1},
    {"Any": 0, "mixed": [{"a": "abc", "b": 1}, {"b": -2}], "odd": None},
    {"Any": 0, "mixed": None, "odd": "x", "sizes": [0, 1.5, 2], "tree": {"of": [{"of": []}]}},
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
]


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
    for start, end in [("Any:{", "Any:"), ('<|"|>say', "say"), ("1.5", "1."), ("]}<tool", "]<tool"), ("odd", "Odd")]:
        assert not bound.allows(whole.replace(start, end, 1))
