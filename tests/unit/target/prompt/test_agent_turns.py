"""An agent's whole turn renders with every template: a call, its result, the answer, and a further question."""

import re

import pytest

from services.target.prompt.chat_renderer import make_renderer
from services.target.prompt.repairs import REPAIRS, merge_turns
from tests.unit.target.prompt.template_conversations import (
    RESULT,
    USER,
    WEATHER,
    called,
    families,
    renderer,
    said,
)

TOKIO = ("get_weather", {"city": "Tokio"})
FURTHER = [said("assistant", "It is clear."), said("user", "And Rome?")]


def render(family: str, messages: list[dict]) -> str:
    question = {"messages": messages, "tools": [WEATHER], "add_generation_prompt": True}
    return renderer(family)(question)["text"]


@pytest.mark.parametrize("family", sorted(families()))
def test_a_call_without_content_is_rendered_as_with_an_empty_one(family):
    call = called(TOKIO)
    without = {name: value for name, value in call.items() if name != "content"}
    (text,) = {render(family, [USER, one, RESULT, *FURTHER]) for one in (call, without, {**call, "content": None})}
    assert text.count("Tokio") == 1
    assert "None" not in text
    assert "It is clear." in text
    assert "And Rome?" in text


@pytest.mark.parametrize("family", sorted(families()))
def test_a_call_among_words_is_rendered_with_them(family):
    text = render(family, [USER, called(TOKIO, content="I look."), RESULT, *FURTHER])
    assert text.count("Tokio") == 1
    assert text.count("I look.") == 1


@pytest.mark.parametrize("family", sorted(families()))
def test_ids_of_others_and_turns_that_do_not_alternate(family):
    call, result = called(TOKIO, ("now", {})), {**RESULT, "tool_call_id": "call_18a2_0_0"}
    call["tool_calls"][0]["id"] = "call_18a2_0_0"
    messages = [said("user", "One."), said("user", "Two."), call, result, said("tool", "12:00"), said("user", "Three.")]
    text = render(family, messages)
    assert all(one in text for one in ("One.", "Two.", "Three."))
    assert text.count("klar") == 1


def test_the_ids_that_a_template_wants():
    messages = [USER, called(TOKIO), {**RESULT, "tool_call_id": "toolu_01A"}, *FURTHER]
    messages[1]["tool_calls"][0]["id"] = "toolu_01A"
    text = render("mistral-small-3.2", messages)
    (name,) = re.findall(r"\[CALL_ID\](\w{9})\[ARGS\]", text)
    assert f"[TOOL_RESULTS]{name}[TOOL_CONTENT]" in text
    assert render("mistral-small-3.2", [*messages, *FURTHER]).count(name) == 2
    messages[2]["tool_call_id"] = messages[1]["tool_calls"][0]["id"] = "abcDEF123"
    assert render("mistral-small-3.2", messages).count("abcDEF123") == 2


def test_calls_are_split_for_a_template_that_takes_one():
    call = called(TOKIO, ("now", {}))
    results = [said("tool", "12:00", tool_call_id="call00001"), RESULT]
    text = render("llama-3", [USER, call, *results, *FURTHER])
    places = [text.index(one) for one in ('{"name": "now"', "12:00", '{"name": "get_weather", "parameters"', "klar")]
    assert places == sorted(places)


def test_without_a_system_role_its_text_begins_the_question():
    question = {"messages": [said("system", "Be brief."), said("user", "Hi")], "add_generation_prompt": True}
    text = renderer("gemma")(question)["text"]
    assert "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>" in text


def test_a_refusal_that_no_repair_helps_is_the_first_one():
    setup = {"sources": {"default": "{{ raise_exception('never ' ~ messages | length) }}"}, "special_tokens": {}}
    question = {"messages": [said("user", "a"), said("user", "b")], "add_generation_prompt": True}
    assert make_renderer(setup)(question) == {"problem": "never 2"}


@pytest.mark.parametrize("family", sorted(families()))
def test_a_tool_without_a_description(family):
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    question = {"messages": [USER], "tools": [tool], "add_generation_prompt": True}
    assert "<Paris>?" in renderer(family)(question)["text"]


def test_merged_turns_keep_the_reasoning_of_both():
    turns = [
        USER,
        said("assistant", "A", reasoning_content="First."),
        said("assistant", "B", reasoning_content="Then."),
    ]
    (_, merged) = merge_turns(turns)
    assert merged == said("assistant", "A\n\nB", reasoning_content="First.\n\nThen.")


def test_odd_messages_are_repaired_without_an_error():
    messages = [USER, {**RESULT, "tool_calls": called(TOKIO)["tool_calls"]}, said("tool", "12"), said("called", "a")]
    assert all(repair(messages) for repair in REPAIRS)
