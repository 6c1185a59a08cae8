"""The templates of published families render as transformers renders them."""

import json

import pytest

from services.target.prompt.chat_template import ChatTemplate, ChatTemplateError
from tests.unit.target.prompt.template_conversations import (
    CONVERSATIONS,
    SPECIAL_TOKENS,
    expectations_of,
    families,
    template_of,
)

pytestmark = pytest.mark.process

FAMILIES = [*families()]
_CALLS = ("a call and its result", "two calls")
OLDER_CALLS = {"deepseek-v3": _CALLS, "deepseek-r1-distill": _CALLS}
"""What transformers cannot render: its messages have no content that is none, nor arguments as text."""


def rendered(template: ChatTemplate, conversation: dict) -> str | None:
    try:
        return template.render(**conversation)
    except ChatTemplateError:
        return None


@pytest.mark.parametrize("family", FAMILIES)
def test_every_conversation_is_rendered_as_by_transformers(family):
    expected = json.loads(expectations_of(family).read_text())
    template = ChatTemplate(template_of(family), SPECIAL_TOKENS)
    texts = {name: rendered(template, conversation) for name, conversation in CONVERSATIONS.items()}
    if family in OLDER_CALLS:
        assert all("get_weather" in texts[name] for name in OLDER_CALLS[family])
        texts |= dict.fromkeys(OLDER_CALLS[family])
    assert texts == expected


def test_there_are_enough_families_and_most_know_of_tools():
    expected = {family: json.loads(expectations_of(family).read_text()) for family in FAMILIES}
    assert len(FAMILIES) >= 20
    assert all(texts.keys() == CONVERSATIONS.keys() and texts["a question"] for texts in expected.values())
    assert sum("get_weather" in (texts["a call and its result"] or "") for texts in expected.values()) >= 15


def test_the_expected_texts_are_those_of_the_installed_transformers():
    pytest.importorskip("transformers")
    from tests.unit.target.prompt.template_expectations import expected

    for family in ("qwen3", "llama-3", "mistral-nemo"):
        assert expected(family) == json.loads(expectations_of(family).read_text())
