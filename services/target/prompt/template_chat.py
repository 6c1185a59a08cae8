"""TemplateChat: converts a conversation into the variables that chat templates expect, as in transformers."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

_OPEN_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_REASONING = "reasoning_content"

Message = dict[str, Any]


class TemplateChat:
    """The conversation of one question to the worker: `messages`, `tools`, `add_generation_prompt`,
    `continue_final_message` and further `variables`. A message's content is a text or a list of parts; the arguments of
    its calls are objects.
    """

    def __init__(self, question: dict[str, Any]) -> None:
        self._question = question
        self._messages: list[Message] = question["messages"]
        self._is_open = bool(question.get("continue_final_message"))
        self.has_parts = any(isinstance(message.get("content"), list) for message in self._messages)
        """Whether the content of some message is a list."""
        self.has_calls = any(message.get("tool_calls") for message in self._messages)
        """Whether some message has tool calls."""

    def variables(self, *, with_parts: bool) -> dict[str, Any]:
        """The template's variables; each message's content is one text unless the template takes parts."""
        messages = [_completed(message, with_parts=with_parts) for message in self._messages]
        if self._is_open:
            messages[-1] = _left_open(messages[-1])
        return {
            **self._question.get("variables", {}),
            "messages": messages,
            "tools": self._question.get("tools"),
            "add_generation_prompt": self._question["add_generation_prompt"],
        }

    def cut(self, text: str) -> str:
        """The prompt, cut at the end of a last message that is continued; raises ValueError if that is not in it."""
        if not self._is_open:
            return text
        place = text.rfind(_OPEN_TAG.strip())
        if place < 0:
            raise ValueError("the last message, which is to be continued, is not in the prompt")
        kept = text[:place]
        return kept if text.startswith(_OPEN_TAG, place) else kept.rstrip()  # the template trimmed the message


def takes_parts(write: Callable[[dict[str, Any]], str]) -> bool:
    """Whether a template renders the parts of a message, rather than writing out the list or failing."""
    parts = [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]
    try:
        text = write({"messages": [{"role": "user", "content": parts}], "add_generation_prompt": False})
    except MemoryError:
        raise
    except Exception:  # a template is a program: it can fail in any way
        return False
    return "first" in text and "second" in text and "type" not in text.partition("first")[2].partition("second")[0]


def older_calls(variables: dict[str, Any]) -> dict[str, Any]:
    """The same variables with the arguments of calls as JSON texts, and content None in messages without text."""
    messages = deepcopy(variables["messages"])
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            message.setdefault("content", None)
    return {**variables, "messages": messages}


def _completed(message: Message, *, with_parts: bool) -> Message:
    """A message with its reasoning under all names that templates read, and its content as a text or as parts."""
    if _REASONING in message:
        message = {"thinking": message[_REASONING], **message}
    content = message.get("content")
    if isinstance(content, list) and not with_parts:
        return {**message, "content": "\n".join(part["text"] for part in content)}
    return message


def _left_open(message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content + _OPEN_TAG}
    *others, last = content
    return {**message, "content": [*others, {**last, "text": last["text"] + _OPEN_TAG}]}
