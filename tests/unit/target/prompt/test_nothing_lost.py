"""Every template's prompt has each text of a conversation once and in order, given as a string or in parts."""

import re
from itertools import count
from typing import Any

import pytest

from services.target.prompt.chat_renderer import make_renderer
from tests.harness.further import all_with
from tests.unit.target.prompt.template_conversations import (
    CLOCK,
    WEATHER,
    called,
    families,
    renderer,
    said,
)

FAMILIES = sorted(families())
SYSTEM_LATER = {"mistral-nemo"}
"""Their templates write the first system message before the last question."""


def conversation(*roles: str) -> list[dict[str, Any]]:
    """Messages of these roles, each text a word of its own with its place; `calls` is two calls beside a text, with
    their results, which may alternate with the calls and so have their place.
    """
    serial = count()
    messages: list[dict[str, Any]] = []
    for place, role in enumerate(roles):
        if role != "calls":
            messages.append(said(role, f"Zwerg{place:03}a{next(serial):03}Ende"))
            continue
        text, *others = (f"Zwerg{place:03}{part}{next(serial):03}Ende" for part in "abbbb")
        messages.append(called(*(("get_weather", {"city": word}) for word in others[:2]), content=text))
        messages += (said("tool", word, tool_call_id=f"call0000{number}") for number, word in enumerate(others[2:]))
    return messages


CONVERSATIONS = {
    "several system messages": conversation("system", "system", "user", "assistant", "system", "user"),
    "a developer's": conversation("developer", "user", "assistant", "developer", "user"),
    "an unknown role": conversation("system", "user", "assistant", "critic", "user", "calls", "critic"),
    "a result of no call": conversation("user", "tool"),
    "a system message last": conversation("system", "user", "assistant", "system"),
    "calls": conversation("system", "user", "calls", "assistant", "user"),
    "results last": conversation("system", "user", "calls"),
    "calls again": conversation("user", "calls", "calls", "assistant", "user", "calls", "assistant", "system", "user"),
    "a question after results": conversation("system", "user", "calls", "user"),
    "several of each": conversation(
        "user", "user", "assistant", "assistant", "user", "calls", "system", "system", "user"
    ),
}


def in_parts(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    return {**message, "content": [{"type": "text", "text": content}]}


def render(family: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> str:
    if any("tool_calls" in message for message in messages):
        tools = tools or [WEATHER, CLOCK]
    return renderer(family)({"messages": messages, "tools": tools, "add_generation_prompt": True})["text"]


def words_in(text: str) -> list[str]:
    return re.findall(r"Zwerg\d{3}\w\d{3}Ende", text)


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_text_is_in_the_prompt_once_and_in_order(family, name):
    messages = CONVERSATIONS[name]
    found = words_in(render(family, messages))
    assert sorted(found) == sorted(words_in(str(messages)))
    is_later = family in SYSTEM_LATER and messages[0]["role"] == "system"
    places = [word[: len("Zwerg000a")] for word in found if not (is_later and word == messages[0]["content"])]
    assert places == sorted(places)


@pytest.mark.parametrize("name", all_with(CONVERSATIONS, "a developer's", "several of each", "calls again"))
@pytest.mark.parametrize("family", FAMILIES)
def test_one_part_is_rendered_as_its_text(family, name):
    messages = CONVERSATIONS[name]
    assert render(family, [*map(in_parts, messages)]) == render(family, messages)


def test_a_developers_message_is_the_systems():
    assert "<|system|>\nBe brief.</s>" in render("zephyr", [said("developer", "Be brief."), said("user", "Hi.")])


@pytest.mark.parametrize("family", FAMILIES)
def test_several_parts_are_all_rendered(family):
    messages = CONVERSATIONS["calls again"]
    parted = [
        {**one, "content": [{"type": "text", "text": f"{one['content']}{end}"} for end in "xy"]} for one in messages
    ]
    found = re.findall(r"(Zwerg\d{3}\w\d{3}Ende)([xy])", render(family, parted))
    texts = {one["content"] for one in messages}
    assert sorted(found) == sorted((text, end) for text in texts for end in "xy")


def test_a_system_message_of_parts_is_a_paragraph():
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    messages = [said("system", parts), said("user", parts)]
    assert "<start_of_turn>user\nOne.\nTwo.\n\nOne.\nTwo.<end_of_turn>" in render("gemma", messages)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_with_all_its_fields_is_rendered(family):
    """A model's own answer comes back with its reasoning, its text and its calls."""
    call = called(("get_weather", {"city": "Tokio"}), content="I look.", reasoning_content="Where?")
    result = said("tool", "It is clear.", tool_call_id="call00000")
    text = render(family, [said("user", "Hi."), call, result])
    assert [text.count(one) for one in ("I look.", "Tokio", "It is clear.")] == [1, 1, 1]
    assert text.count("Where?") <= 1


TOOLS: dict[str, dict[str, Any]] = {
    "no properties": {"type": "object"},
    "no type": {},
    "defaults that are no texts": {
        "type": "object",
        "properties": {
            "mode": {"type": "integer", "enum": [1, 2], "default": 1},
            "size": {"oneOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"enum": [1], "default": 1}}}},
            "default": {"type": "boolean", "enum": [True], "default": True},
        },
    },
}


@pytest.mark.parametrize("parameters", TOOLS.values(), ids=TOOLS)
@pytest.mark.parametrize("family", FAMILIES)
def test_definitions_of_tools_that_a_template_may_refuse(family, parameters):
    tools = [{"type": "function", "function": {"name": "set", "parameters": parameters}}]
    assert "Hi." in render(family, [said("user", "Hi.")], tools)


def test_a_template_of_parts_alone_gets_parts():
    parted = "{% for message in messages %}{% for part in message.content %}[{{ part.text }}]{% endfor %}{% endfor %}"
    question = {"messages": [said("system", "One."), said("user", "Two.")], "add_generation_prompt": True}
    assert make_renderer({"sources": {"default": parted}, "special_tokens": {}})(question) == {"text": "[One.][Two.]"}
