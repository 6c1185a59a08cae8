"""A bound answer can be what its tools and their schemas allow in the family's own syntax, and nothing else."""

import json

import pytest

from services.engine.grammar.source import GrammarKind, GrammarSource
from services.target.message.argument_types import ArgumentTypes
from services.target.message.deltas import ToolCall
from services.target.message.message_parser import MessageParser
from services.target.message.syntax import REASONING_SYNTAXES, TOOL_SYNTAXES, MessageSyntax
from services.target.message.thought import PromptThought, thought_of
from services.target.message.tool_grammar import BoundTool
from tests.harness.further import further
from tests.unit.target.message.bound import NOW, SCHEMA, UNKNOWN, WEATHER, WRONG, Bound, tokenizer
from tests.unit.target.message.families import reasoning_of
from tests.unit.target.message.parts import parts_of


@pytest.mark.parametrize("family", TOOL_SYNTAXES)
def test_a_required_call_is_one_of_the_tools_with_its_arguments(family):
    bound = Bound(family, PromptThought.CLOSED, is_required=True)
    assert bound.allows(bound.calls(WEATHER))
    assert bound.allows(bound.calls(WEATHER, NOW)) == (family != "harmony")
    assert not any(
        map(bound.allows, ("", bound.says("Hello."), bound.calls(WRONG), bound.calls(UNKNOWN), bound.calls(NOW, WRONG)))
    )
    assert bound.parts(bound.calls(WEATHER)) == [ToolCall(*WEATHER)]
    assert bound.parts(bound.calls(NOW)) == [ToolCall(*NOW)]


def test_schema_texts_cannot_break_out_of_the_grammar():
    """Its texts are those of strangers, and stand in the middle of a grammar."""
    said = 'a"} # b // c\n%import d\nstart: "e" & ~f <[1]>'
    schema = {**SCHEMA, "description": said, "properties": {said: {"const": said}}, "required": [said]}
    bound = Bound("hermes", PromptThought.CLOSED, is_required=True, tools=[BoundTool("get_weather", schema)])
    assert bound.allows(bound.calls(("get_weather", json.dumps({said: said}))))
    assert not bound.allows(bound.calls(("get_weather", json.dumps({said: ""}))))


@pytest.mark.parametrize("family", TOOL_SYNTAXES)
def test_a_single_call_stays_alone(family):
    bound = Bound(family, PromptThought.CLOSED, is_required=True, is_parallel=False)
    assert bound.allows(bound.calls(WEATHER))
    assert not bound.allows(bound.calls(WEATHER, NOW))
    free = Bound(family, PromptThought.CLOSED, is_required=False, is_parallel=False)
    assert free.allows(free.says("Hello."))
    assert free.allows(free.calls(NOW))
    assert not free.allows(free.calls(WEATHER, NOW))


@pytest.mark.parametrize("family", TOOL_SYNTAXES)
def test_a_call_that_the_model_begins_is_bound(family):
    bound = Bound(family, PromptThought.CLOSED, is_required=False)
    assert all(map(bound.allows, (bound.says(""), bound.says("Hello. {"), bound.calls(WEATHER))))
    assert bound.allows(bound.calls(WEATHER, NOW)) == (family != "harmony")
    assert not any(map(bound.allows, (bound.calls(WRONG), bound.calls(UNKNOWN), bound.calls(WEATHER, WRONG))))
    if not bound.tools.is_bare:
        assert bound.allows("I look. " + bound.calls(WEATHER) + " Done.")
        assert not bound.allows("I look. " + bound.calls(WRONG))


@pytest.mark.parametrize("family", TOOL_SYNTAXES)
def test_a_thought_comes_first_where_the_prompt_leaves_room(family):
    marks = REASONING_SYNTAXES[reasoning_of(family)]
    start, end = marks.start, marks.end + marks.after
    begins, goes_on = (Bound(family, thought, is_required=True) for thought in (PromptThought.NONE, PromptThought.OPEN))
    calls = begins.calls(WEATHER)
    assert begins.allows(calls)
    assert begins.allows(f"{start}Hm{end}\n\n{calls}")
    assert goes_on.allows(f"Hm{end}{calls}")
    assert not goes_on.allows(calls)
    assert not goes_on.allows(f"Hm{end} And so on{end}{calls}")
    assert not Bound(family, PromptThought.CLOSED, is_required=True).allows(f"{start}Hm{end}{calls}")


@pytest.mark.parametrize(
    ("prompt", "thought"),
    [
        ("<|user|>a<|end|><|assistant|>", PromptThought.NONE),
        ("<|assistant|><think>\n", PromptThought.OPEN),
        ("<|assistant|><think>\n\n</think>\n\n", PromptThought.CLOSED),
        ("<|assistant|><think>a<|end|><|assistant|>", PromptThought.NONE),
        ("", PromptThought.NONE),
    ],
)
def test_the_prompts_end_shows_the_state_of_its_thought(prompt, thought):
    syntax = MessageSyntax.find("</think>", tokenizer(), tool_parser="none", reasoning_parser="auto")
    ids = tokenizer().encode(prompt, add_special_tokens=False)
    assert thought_of(ids, tokenizer(), syntax) is thought


VALUES = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[a-f]{2}/[0-9]$"},
        "part": {"type": "string", "pattern": "x"},
        "count": {"$ref": "#/$defs/count"},
        "kind": {"const": "a\nb"},
        "flag": {"type": "boolean"},
        "text": {"type": "string"},
    },
    "required": ["id", "part", "count", "kind", "flag", "text"],
    "$defs": {"count": {"type": "integer", "minimum": 1, "maximum": 12}},
}
RIGHT = {"id": "ab/1", "part": "<x>\n", "count": 12, "kind": "a\nb", "flag": True, "text": "12\n</p>"}


@pytest.mark.parametrize("family", [name for name, tools in TOOL_SYNTAXES.items() if tools.xml])
def test_bare_values_follow_their_schemas(family):
    bound = Bound(family, PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", VALUES)])
    assert bound.allows(bound.calls(("set", json.dumps(RIGHT))))
    parser = MessageParser(bound.syntax, ArgumentTypes({"set": VALUES}), is_thinking=False)
    (call,) = parts_of(parser.feed(bound.calls(("set", json.dumps(RIGHT)))) + parser.finish())
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == RIGHT
    for wrong in ({"id": "ab/12"}, {"part": "y"}, {"count": 13}, {"kind": "a"}, {"flag": "yes"}):
        assert not bound.allows(bound.calls(("set", json.dumps({**RIGHT, **wrong}))))


XML = [name for name, tools in TOOL_SYNTAXES.items() if tools.xml]
REFERRED = {
    "$id": "https://example.com/set.json",
    "properties": {"positive": {"type": "integer", "minimum": 1}},
    "$defs": {"a/b": {"$anchor": "c", "type": "integer", "minimum": 1}, "kind": {"enum": ["x", "y"]}},
}


@pytest.mark.parametrize("reference", ["#/properties/positive", "#c", "#/%24defs/a~1b", "set.json#c"])
def test_values_follow_references_of_every_spelling(reference):
    listed = {"type": "array", "items": {"$ref": reference}, "minItems": 1}
    properties = {"one": {"$ref": reference, "title": "One"}, "several": listed, "kind": {"$ref": "#/$defs/kind"}}
    schema = {**REFERRED, "properties": {**properties, **REFERRED["properties"]}, "required": [*properties]}
    right = {"one": 5, "several": [5], "kind": "x"}
    for family in (*XML, "hermes"):
        bound = Bound(family, PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])
        assert bound.allows(bound.calls(("set", json.dumps(right))))
        for wrong in ({"one": 0}, {"several": [0]}, {"kind": "z"}):
            assert not bound.allows(bound.calls(("set", json.dumps({**right, **wrong}))))


@pytest.mark.parametrize("family", XML)
def test_a_value_may_be_one_of_some_texts_or_of_another_type(family):
    days = {"anyOf": [{"type": "integer", "maximum": 9}, {"const": "auto"}]}
    schema = {"properties": {"days": days}, "required": ["days"]}
    bound = Bound(family, PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])
    parser = MessageParser(bound.syntax, ArgumentTypes({"set": schema}), is_thinking=False)
    for right in (5, "auto"):
        call = bound.calls(("set", json.dumps({"days": right})))
        assert bound.allows(call)
        assert json.loads(parser.feed(call)[-1].arguments) == {"days": right}
    assert not any(bound.allows(bound.calls(("set", json.dumps({"days": wrong})))) for wrong in (10, "aut", "5.5"))


def test_values_that_refer_to_themselves_follow_their_schema():
    tree = {"type": "object", "properties": {"definitions": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    tree |= {"additionalProperties": False, "required": ["definitions"]}
    schema = {"properties": {"tree": {"$ref": "#/$defs/tree"}}, "required": ["tree"], "$defs": {"tree": tree}}
    bound = Bound("glm", PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])
    assert bound.allows(bound.calls(("set", '{"tree": {"definitions": [{"definitions": []}]}}')))
    assert not bound.allows(bound.calls(("set", '{"tree": {"definitions": [{"definition": []}]}}')))


@pytest.mark.parametrize("family", XML)
@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {}, {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"type": "integer"}}}}}],
)
def test_a_schema_without_properties_of_its_own(family, schema):
    bound = Bound(family, PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])
    assert bound.allows(bound.calls(("set", '{"x": 1}')))
    assert bound.allows(bound.calls(("set", '{"y": 1}'))) == ("$ref" not in schema)


@pytest.mark.parametrize(
    ("value", "right", "wrong"),
    [
        ({"pattern": r"^C:\\/x$"}, "C:\\/x", "C:/x"),
        ({"pattern": r"^\d+\\$"}, "12\\", "12"),
        ({"pattern": "^a|b$"}, "anything", None),
        ({"pattern": "a|b"}, "xbx", "c"),
        ({"minLength": True, "maxLength": 3}, "abc", "abcd"),
        ({"minLength": 2, "maxLength": None}, "ab", "a"),
        ({"minLength": -1}, "", None),
        ({"enum": []}, "anything", None),
    ],
)
def test_patterns_and_lengths_of_bare_values(value, right, wrong):
    schema = {"properties": {"a": {"type": "string", **value}}, "required": ["a"]}
    bound = Bound("glm", PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])
    assert bound.allows(bound.calls(("set", json.dumps({"a": right}))))
    assert wrong is None or not bound.allows(bound.calls(("set", json.dumps({"a": wrong}))))


@pytest.mark.parametrize(
    "schema", [{"properties": [], "required": 5}, {"properties": {"a": True}}, {"required": ["a"]}]
)
def test_odd_schemas_leave_arguments_free(schema):
    bound = Bound("qwen3_coder", PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])
    assert bound.allows(bound.calls(("set", '{"a": "b"}')))


def test_definitions_that_every_value_repeats_are_too_large():
    count = {"$ref": "#/$defs/count"}
    schema = {"properties": dict.fromkeys(map(str, range(200)), count), "$defs": {"count": {"enum": [*range(10_000)]}}}
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        Bound("glm", PromptThought.CLOSED, is_required=True, tools=[BoundTool("set", schema)])


NAMED = {"type": "object", "properties": {"name": {"const": "Alice"}, "age": {"$ref": "#/$defs/age"}}}
NAMED |= {"required": ["name", "age"], "additionalProperties": False, "$defs": {"age": {"enum": [3, 4]}}}
FORMS = {
    "json": (GrammarSource(GrammarKind.JSON_SCHEMA, (json.dumps(NAMED, indent=1),)), '{"name": "Alice", "age": 3}'),
    "regex": (GrammarSource(GrammarKind.REGEX, ("a/b|(c )+",)), "c c "),
    "choice": (GrammarSource(GrammarKind.CHOICE, ("yes (no)", "\n/")), "yes (no)"),
}
REFERRING = {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}, "unit": {"const": "c"}}}
REFERRING |= {"required": ["city"], "additionalProperties": False, "$defs": {"city": {"enum": ["Paris", "Rome"]}}}


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        (family, kind) if kind == "json" or family in {"hermes", "glm", "harmony"} else further(family, kind)
        for family in TOOL_SYNTAXES
        for kind in FORMS
    ],
)
def test_beside_a_form_an_answer_is_calls_or_that_form(family: str, kind: str):
    form, text = FORMS[kind]
    is_parallel = kind != "regex"
    tools = [BoundTool("get_weather", REFERRING), BoundTool("now", None)]
    bound = Bound(family, PromptThought.CLOSED, is_required=False, is_parallel=is_parallel, tools=tools, form=form)
    assert bound.allows(bound.says(text))
    assert bound.allows(bound.calls(WEATHER))
    assert bound.allows(bound.calls(NOW))
    assert bound.allows(bound.calls(WEATHER, NOW)) == (is_parallel and bound.tools.between is not None)
    for wrong in (bound.says("Hello"), bound.says(text + "x"), text + bound.calls(NOW), bound.calls(WRONG), ""):
        assert not bound.allows(wrong)


@pytest.mark.parametrize("family", ["hermes", "llama3_json", "mistral_args"])
def test_the_form_and_calls_come_after_the_reasoning(family: str):
    form, text = FORMS["json"]
    bound = Bound(family, PromptThought.OPEN, is_required=False, form=form)
    end = bound.syntax.reasoning.end + bound.syntax.reasoning.after
    for answer in (text, bound.calls(NOW)):
        assert bound.allows(f"Hm.{end}{answer}")


def test_a_form_that_prefers_its_end_keeps_to_it():
    form = GrammarSource(GrammarKind.REGEX, ("a+",), prefers_end=True)
    bound = Bound("hermes", PromptThought.CLOSED, is_required=False, form=form)
    assert bound.allows("a")
    assert not bound.allows("aa")
