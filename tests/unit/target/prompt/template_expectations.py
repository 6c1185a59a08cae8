"""Writes what transformers renders with each family's template, if it is run as a program."""

import contextlib
import copy
import json
from typing import Any

from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.unit.target.prompt.template_conversations import (
    CONVERSATIONS,
    SPECIAL_TOKENS,
    expectations_of,
    families,
    template_of,
)


def expected(family: str) -> dict[str, str | None]:
    """The text of each conversation; None where the template refuses it."""
    return {name: _rendered(family, conversation) for name, conversation in CONVERSATIONS.items()}


def _rendered(family: str, conversation: dict[str, Any]) -> str | None:
    has_parts = any(isinstance(message.get("content"), list) for message in conversation["messages"])
    variants = (conversation, _with_older_calls(conversation), _with_joined_parts(conversation))
    for variant in variants[2:] if has_parts and not _takes_parts(family) else variants[:2]:
        with contextlib.suppress(Exception):  # however a template treats unknown fields
            return _apply(family, **variant)
    return None


def _takes_parts(family: str) -> bool:
    """Whether a template writes the texts of parts, and not the list of them."""
    with contextlib.suppress(Exception):
        text = _apply(family, **CONVERSATIONS["parts"])
        return "One." in text and "'text'" not in text
    return False


def _apply(family: str, *, variables: dict[str, Any] | None = None, **conversation: Any) -> str:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level_tokenizer(), **SPECIAL_TOKENS)
    tokenizer.chat_template = template_of(family)
    arguments = {"add_generation_prompt": True, **conversation, **(variables or {})}
    messages = arguments.pop("messages")
    text = tokenizer.apply_chat_template(messages, tokenize=False, **arguments)
    assert isinstance(text, str)
    return text


def _with_older_calls(conversation: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(conversation)
    for message in changed["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
            message["content"] = message["content"] or None
    return changed


def _with_joined_parts(conversation: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(conversation)
    for message in changed["messages"]:
        if isinstance(message.get("content"), list):
            message["content"] = "\n".join(part["text"] for part in message["content"])
    return changed


def main() -> None:
    """Write all of them."""
    for family in families():
        text = json.dumps(expected(family), ensure_ascii=False, indent=1)
        expectations_of(family).write_text(text + "\n")


if __name__ == "__main__":
    main()
