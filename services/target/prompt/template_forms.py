"""TemplateForms: the forms of messages that a template renders, found by rendering small samples."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Message = dict[str, Any]
Content = str | list[Any] | None
Write = Callable[[dict[str, Any]], str]

_TOOL, _KEY, _VALUE = "sample_tool", "sample_key", "sample value"
_PARAMETERS = {"type": "object", "properties": {_KEY: {"type": "string"}}}
SAMPLE_TOOL = {
    "type": "function",
    "function": {"name": _TOOL, "description": "A sample.", "parameters": _PARAMETERS},
}
_WORDS, _ID = "first second", "sample001"
_PARTS = [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]
_PYTHON_OBJECT, _NESTED_JSON = f"'{_KEY}'", f'\\"{_KEY}\\"'


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form of a message that has tool calls and no text."""

    content: str | None
    has_text_arguments: bool  # whether the arguments are JSON in a string rather than an object

    def message(self, message: Message) -> Message:
        """A message with calls in this form; its arguments are given as objects."""
        message = {**message, "content": message.get("content") or self.content}
        if self.has_text_arguments:
            message["tool_calls"] = [_with_text(call) for call in message["tool_calls"]]
        return message

    def messages(self, message: Message) -> list[Message]:
        """The message in this form: two messages if the template would leave out the calls of a message with text."""
        if self.content is None and message.get("content"):
            text = {name: value for name, value in message.items() if name != "tool_calls"}
            return [text, self.message({**message, "content": None})]
        return [self.message(message)]


_FORMS = [CallForm(content, is_text) for is_text in (False, True) for content in ("", None)]


class TemplateForms:
    """What one template takes; each fact is found when it is first needed."""

    def __init__(self, write: Write) -> None:
        """`write` renders the template with variables; it may raise anything."""
        self._write = write
        self._taken: dict[tuple[str, bool], bool] = {}  # by role and by whether the content is a string

    def content(self, role: str, content: Content) -> Content:
        """The content of a message in the form that the template renders; one part is the same as its text."""
        takes_text, takes_parts = self._takes(role, _WORDS), self._takes(role, _PARTS)
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content and takes_parts and not takes_text else content
        if not content:
            return content
        if len(content) == 1 and takes_text:
            text: str = content[0]["text"]
            return text
        if self._takes("user", _PARTS) and (takes_parts or not takes_text):
            return content
        return "\n".join(part["text"] for part in content)

    def _takes(self, role: str, content: str | list[Any]) -> bool:
        """Whether the template renders both words of a message, rather than writing out their list or failing."""
        key = (role, isinstance(content, str))
        if key not in self._taken:
            text = self._sample({"messages": self._around({"role": role, "content": content})})
            self._taken[key] = "second" in text and "type" not in text.partition("first")[2].partition("second")[0]
        return self._taken[key]

    def _around(self, message: Message) -> list[Message]:
        """A message of a role among those that templates expect around it."""
        user = {"role": "user", "content": "A question."}
        match message["role"]:
            case "system" | "developer":
                return [message, user]
            case "assistant":
                return [user, message, user]
            case "tool":
                return [user, self._call(self.call_form), {**message, "tool_call_id": _ID}]
        return [message]

    @cached_property
    def call_form(self) -> CallForm:
        """The first form whose calls the template renders; the first of all if it renders no calls."""
        return next(filter(self._renders, _FORMS), _FORMS[0])

    def _renders(self, form: CallForm) -> bool:
        messages = [{"role": "user", "content": "A question."}, self._call(form)]
        text = self._sample({"messages": messages, "tools": [SAMPLE_TOOL]})
        return text.count(_VALUE) == 1 and _PYTHON_OBJECT not in text and _NESTED_JSON not in text

    def _call(self, form: CallForm) -> Message:
        function = {"name": _TOOL, "arguments": {_KEY: _VALUE}}
        calls = [{"id": _ID, "type": "function", "function": function}]
        return form.message({"role": "assistant", "tool_calls": calls})

    def _sample(self, variables: dict[str, Any]) -> str:
        """The text of a sample, empty if the template refuses it."""
        try:
            return self._write({**variables, "add_generation_prompt": False})
        except MemoryError:
            raise
        except Exception:  # a template is a program: it can fail in any way
            return ""


def _with_text(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"], ensure_ascii=False)}}
