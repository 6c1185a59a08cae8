"""The templates of published families render as transformers renders them."""

import json

import pytest

from tests.unit.target.prompt.template_conversations import (
    CONVERSATIONS,
    expectations_of,
    families,
    renderer,
)

FAMILIES = [*families()]
_CALLS = ("a call and its result", "two calls", "a call among words")
_WORDS = ("a call among words",)
LEFT_OUT = {
    **dict.fromkeys(("deepseek-v3", "deepseek-r1-distill", "granite-3.3", "phi-3.5", "smollm3", "zephyr"), _CALLS),
    **dict.fromkeys(("hermes", "llama-3", "mistral-nemo", "mistral-small-3.2"), _WORDS),
    "gpt-oss": ("two calls", *_WORDS),
}
"""Conversations whose calls, or a text beside them, these templates leave out, so that transformers renders none."""
MISPLACED = {"gemma-4": _WORDS}
"""Conversations in which these templates write the text beside calls after the results."""
REFUSED = {
    "gemma": ("a system's word first", "several turns", "tools", *_CALLS),
    "llama-2": _CALLS,
    "llama-3": ("two calls",),
}
"""Conversations that these templates refuse, so that transformers renders none."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_conversation_is_rendered_as_by_transformers(family):
    expected = json.loads(expectations_of(family).read_text())
    render = renderer(family)
    texts = {name: render({"add_generation_prompt": True, **one}).get("text") for name, one in CONVERSATIONS.items()}
    assert {name for name, text in expected.items() if text is None} == {*REFUSED.get(family, ())}
    others = {name for names in (REFUSED, LEFT_OUT, MISPLACED) for name in names.get(family, ())}
    assert all("get_weather" in texts[name] for name in LEFT_OUT.get(family, ()))
    assert {name: texts[name] for name in texts if name not in others} == {
        name: expected[name] for name in expected if name not in others
    }


def test_there_are_enough_families_and_most_have_tools():
    expected = {family: json.loads(expectations_of(family).read_text()) for family in FAMILIES}
    assert len(FAMILIES) >= 20
    assert all(texts.keys() == CONVERSATIONS.keys() and texts["a question"] for texts in expected.values())
    assert sum("get_weather" in (texts["a call and its result"] or "") for texts in expected.values()) >= 15


def test_expected_texts_are_those_of_installed_transformers():
    pytest.importorskip("transformers")
    from tests.unit.target.prompt.template_expectations import expected

    for family in ("qwen3", "llama-3", "mistral-nemo"):
        assert expected(family) == json.loads(expectations_of(family).read_text())
