"""TemplateChat: converts a conversation into the variables that chat templates expect, as in transformers."""

from collections.abc import Iterator
from typing import Any

from services.target.prompt.repairs import REPAIRS, Tool, describe_tools
from services.target.prompt.template_forms import Message, TemplateForms, Write

_OPEN_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_REASONING = "reasoning_content"


class TemplateChat:
    """The conversation of one question to the worker: `messages`, `tools`, `add_generation_prompt`,
    `continue_final_message` and further `variables`. A message's content is a text or a list of parts; the arguments of
    its calls are objects.
    """

    def __init__(self, question: dict[str, Any], forms: TemplateForms) -> None:
        """`forms` are those that the template takes."""
        self._question = question
        self._forms = forms
        self._is_open = bool(question.get("continue_final_message"))

    def render(self, write: Write) -> str:
        """The prompt; raises the template's first error if it refuses the conversation, and also its repairs."""
        refusals: list[Exception] = []
        for messages, tools in self._variants():
            try:
                return self._write(messages, tools, write)
            except MemoryError:
                raise
            except Exception as error:  # a template is a program: it can fail in any way
                refusals.append(error)
        raise refusals[0]

    def _variants(self) -> Iterator[tuple[list[Message], list[Tool] | None]]:
        """The messages and tools as they are, then repaired, the smallest change first."""
        messages, tools = self._messages(), self._question.get("tools")
        yield messages, tools
        described = describe_tools(tools)
        if described != tools:
            yield messages, described
        for repair in REPAIRS:
            if (repaired := repair(messages)) != messages:
                yield repaired, described

    def _messages(self) -> list[Message]:
        messages = [form for message in self._question["messages"] for form in self._completed(message)]
        if self._is_open:
            messages[-1] = _left_open(messages[-1])
        return messages

    def _write(self, messages: list[Message], tools: list[Tool] | None, write: Write) -> str:
        variables = {
            **self._question.get("variables", {}),
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": self._question["add_generation_prompt"],
        }
        return self._cut(write(variables))

    def _cut(self, text: str) -> str:
        """The prompt, cut at the end of a last message that is continued; raises ValueError if that is not in it."""
        if not self._is_open:
            return text
        place = text.rfind(_OPEN_TAG.strip())
        if place < 0:
            raise ValueError("the last message, which is to be continued, is not in the prompt")
        kept = text[:place]
        return kept if text.startswith(_OPEN_TAG, place) else kept.rstrip()  # the template trimmed the message

    def _completed(self, message: Message) -> Iterator[Message]:
        """A message with its reasoning under all names that templates read, and with content and calls in the
        template's form.
        """
        if _REASONING in message:
            message = {"thinking": message[_REASONING], **message}
        content = message.get("content")
        if isinstance(content, list) and not self._forms.takes_parts:
            message = {**message, "content": "\n".join(part["text"] for part in content)}
        if message.get("tool_calls"):
            yield from self._forms.call_form.messages(message)
        else:
            yield message


def _left_open(message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content + _OPEN_TAG}
    *others, last = content
    return {**message, "content": [*others, {**last, "text": last["text"] + _OPEN_TAG}]}
