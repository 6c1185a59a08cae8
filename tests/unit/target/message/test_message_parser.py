"""An answer's text is read as the parts of a message, the same ones wherever it is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.target.message.argument_types import ArgumentTypes
from services.target.message.channel_parser import ChannelParser
from services.target.message.deltas import Arguments, CallStart, Content, Delta, ToolCall
from services.target.message.message_parser import MessageParser
from services.target.message.syntax import TOOL_SYNTAXES
from services.target.message.text_marks import joined_deltas
from services.target.message.thought import PromptThought
from tests.unit.target.message.answer import Answer
from tests.unit.target.message.answers import ANSWERS
from tests.unit.target.message.families import call_of_f, syntax_of
from tests.unit.target.message.parts import parts_of

MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "```json"]
XML = ["<function=f>", "<parameter=a>", "</parameter>", "</function>", "<arg_key>", "</arg_key>", "<arg_value>"]
CHANNELS = ["x" * 130, "<|channel|>", "<|message|>", "<|end|>", "<|start|>assistant", "analysis", " to=functions.f"]
GEMMA = ["<|channel>thought", "<channel|>", "<|tool_call>", "call:f{", "a:", '<|"|>', "<tool_call|>", ","]
OTHERS = ["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", '{"name": "f", "arguments": ', *'{}[]"\\f \n;']
PIECES = st.sampled_from([*MARKS, *XML, *CHANNELS, *GEMMA, *OTHERS])


def parser_of(answer: Answer) -> MessageParser | ChannelParser:
    types = ArgumentTypes(answer.schemas)
    if answer.family == "harmony":
        return ChannelParser(PromptThought.OPEN if answer.is_thinking else PromptThought.NONE, types)
    syntax = syntax_of(answer.family)
    return MessageParser(syntax, types, is_thinking=answer.is_thinking, has_form=answer.has_form)


def read(answer: Answer, *cuts: int) -> list[list[Delta]]:
    """All deltas up to each cut, and in the end."""
    parser = parser_of(answer)
    places = [0, *cuts, len(answer.text)]
    told: list[Delta] = []
    states = []
    for start, end in pairwise(places):
        told += parser.feed(answer.text[start:end])
        states.append(joined_deltas(told))
    return [*states[:-1], joined_deltas(told + parser.finish())]


@pytest.mark.parametrize("name", ANSWERS)
def test_parts_of_an_answer(name):
    answer = ANSWERS[name]
    (deltas,) = read(answer)
    assert parts_of(deltas) == answer.parts


@pytest.mark.parametrize("name", ANSWERS)
def test_the_parts_so_far_are_a_function_of_the_text_so_far(name):
    """So a continuation, which replays the received tokens in one piece, continues with the next delta."""
    answer = ANSWERS[name]
    everywhere = range(1, len(answer.text))
    one_by_one = read(answer, *everywhere)
    assert parts_of(one_by_one[-1]) == answer.parts
    for cut in everywhere:
        assert read(answer, cut) == [one_by_one[cut - 1], one_by_one[-1]]


@pytest.mark.parametrize("name", ANSWERS)
def test_words_are_not_held_back(name):
    answer = ANSWERS[name]
    if "words" in name or "thought" in name:
        states = read(answer, *range(1, len(answer.text)))
        visible = max(len("".join(part.text for part in state)) for state in states[:-1])
        assert visible >= len(answer.text.strip()) - len("</think>") - 12


@given(st.lists(PIECES, max_size=20).map("".join), st.sampled_from([*TOOL_SYNTAXES]), st.booleans(), st.data())
def test_any_text_is_parsed_the_same_in_pieces(text, family, is_thinking, data):
    answer = Answer(family, text, [], is_thinking)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    one_by_one = read(answer, *range(1, len(text)))
    pieces = read(answer, *cuts)
    assert pieces[-1] == one_by_one[-1] == read(answer)[-1]
    assert sum(map(length, parts_of(pieces[-1]))) <= 6 * len(text)
    for cut, state in zip(cuts, pieces, strict=False):
        if 0 < cut < len(text):
            assert state == one_by_one[cut - 1]


def length(part: Delta) -> int:
    """The number of characters of a text or of a call's arguments."""
    return len(part.arguments if isinstance(part, ToolCall) else part.text)


HEAVY = {
    "a long call": ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * 100_000 + '"}}</tool_call>'),
    "marks in a text without end": ("hermes", '<tool_call>{"' + "<tool_call>x" * 10_000),
    "marks in a text, then no JSON": ("hermes", '<tool_call>{"' + "<tool_call>x" * 10_000 + '"<'),
    "braces without end": ("mistral_args", "[TOOL_CALLS]{" * 10_000),
    "lists without end": ("mistral_args", "[TOOL_CALLS][{" * 10_000),
    "quotes without end": ("mistral_args", '[TOOL_CALLS]{"' * 10_000),
    "marks alone": ("mistral_args", "[TOOL_CALLS]" * 10_000),
    "names and white space": ("mistral_args", ("[TOOL_CALLS]a" + " " * 240 + "!{") * 400),
    "a mark, then white space": ("hermes", "<tool_call>" + " " * 100_000 + "x"),
    "an argument without end": ("glm", "<tool_call>a\n<arg_key>b</arg_key><arg_value>" + "x" * 100_000),
    "a parameter without end": ("qwen3_coder", "<tool_call><function=a><parameter=b>" + "x" * 100_000),
    "a string without end": ("gemma4", '<|tool_call>call:f{a:<|"|>' + "x" * 100_000),
    "a bare text without end": ("gemma4", "<|tool_call>call:f{a:" + "x" * 100_000 + ",b:1}"),
    "many strings": ("gemma4", "<|tool_call>call:f{a:[" + '<|"|>word<|"|>,' * 15_000),
    "beginnings of marks": ("harmony", "<|channel|>commentary to=functions.f<|message|>" + "<|" * 50_000),
}
"""Texts that would take long if they were read over and over, and the family whose marks they have."""
IN_ALL_FAMILIES = [
    pytest.param(text, family, marks=[] if family == own else pytest.mark.exhaustive, id=f"{name}-{family}")
    for name, (own, text) in HEAVY.items()
    for family in ("hermes", "mistral_args", "glm", "qwen3_coder", "gemma4", "harmony")
]


@pytest.mark.parametrize(("text", "family"), IN_ALL_FAMILIES)
def test_a_hundred_thousand_characters_are_read_in_no_time(text: str, family: str):
    """Nothing is read over and over."""
    (*_, deltas) = read(Answer(family, text, []), *range(1, len(text), 1000))
    assert sum(map(length, parts_of(deltas))) > 90_000


def test_an_object_with_a_name_that_is_no_tools_is_not_held_back():
    text = '{"name": "Alice", "age": 3}'
    for cut in range(len('{"name": "Alice"'), len(text)):
        assert read(Answer("llama3_json", text, []), cut) == [[Content(text[:cut].rstrip())], [Content(text)]]


def test_a_header_that_is_too_long_is_content_wherever_it_is_cut():
    text = "<tool_call>" + " " * 300 + '{"name": "f"}'
    assert read(Answer("hermes", text, []))[-1] == [Content(text)] == read(Answer("hermes", text, []), 100, 200)[-1]


def test_arguments_end_where_they_nest_too_deeply():
    text = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 70
    (deltas,) = read(Answer("hermes", text, []))
    assert parts_of(deltas) == [ToolCall("f", '{"a": ' + "[" * 62), Content("[" * 8)]


LONG = "She said nothing. " * 9


@pytest.mark.parametrize("family", TOOL_SYNTAXES)
def test_a_call_is_written_while_it_is_generated(family: str):
    """At any point within a string, all but the beginning of a mark has been delivered."""
    text = call_of_f(family, LONG)
    answer = Answer(family, text, [])
    start = text.index(LONG)
    for cut in range(start + 16, start + len(LONG)):
        begun, arguments = read(answer, cut)[0]
        assert begun == CallStart("f")
        assert isinstance(arguments, Arguments)
        assert arguments.text == '{"a": "' + text[start:cut]
    assert parts_of(read(answer)[0]) == [ToolCall("f", f'{{"a": "{LONG}"}}')]
