"""TemplateChat: converts a conversation into the variables that chat templates expect, as in transformers."""

from collections.abc import Iterator
from typing import Any

from services.target.prompt.conversation_probe import ConversationProbe, Defects
from services.target.prompt.repairs import REPAIRS, Repair
from services.target.prompt.template_forms import SAMPLE_TOOL, Message, TemplateForms, Write
from services.target.prompt.tool_repairs import Tool, repaired_tools

_OPEN_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_REASONING = "reasoning_content"
_NONE = Defects(0, 0)


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
        """The prompt, of the first repair with which nothing is left out; raises the template's first error if it
        refuses the conversation, and also its repairs.
        """
        messages = self._messages(self._question["messages"])
        tools = [*repaired_tools(self._question.get("tools"))]
        refusals: dict[int, Exception] = {}
        for index, repair in self._best_first(write):
            for variant in tools:
                try:
                    return self._cut(self._write(repair(messages), variant, write))
                except MemoryError:
                    raise
                except Exception as error:  # a template is a program: it can fail in any way
                    refusals.setdefault(index, error)
        raise refusals[min(refusals)]

    def _best_first(self, write: Write) -> Iterator[tuple[int, Repair]]:
        """The repairs and their numbers: first those that leave out nothing, the smallest change first, and last those
        that the template refuses.
        """
        probe = ConversationProbe(self._question["messages"])
        messages = self._messages(probe.messages)
        others: list[tuple[bool, Defects, int, Repair]] = []
        tried: list[list[Message]] = []
        for index, repair in enumerate(REPAIRS):
            if (repaired := repair(messages)) in tried:
                continue
            tried.append(repaired)
            defects = self._defects(probe, repaired, write)
            if defects == _NONE:
                yield index, repair
            others.append((defects is None, defects or _NONE, index, repair))
        yield from ((index, repair) for *_, index, repair in sorted(others, key=lambda other: other[:3]))

    def _defects(self, probe: ConversationProbe, messages: list[Message], write: Write) -> Defects | None:
        """The defects of a probe's prompt; None if the template refuses it."""
        try:
            tools = [SAMPLE_TOOL] if self._question.get("tools") else None
            return probe.defects(self._write(messages, tools, write))
        except MemoryError:
            raise
        except Exception:  # as above
            return None

    def _messages(self, messages: list[Message]) -> list[Message]:
        completed = [form for message in messages for form in self._completed(message)]
        if self._is_open:
            completed[-1] = _left_open(completed[-1])
        return completed

    def _write(self, messages: list[Message], tools: list[Tool] | None, write: Write) -> str:
        return write(
            {
                **self._question.get("variables", {}),
                "messages": messages,
                "tools": tools,
                "add_generation_prompt": self._question["add_generation_prompt"],
            }
        )

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
        if "content" in message:
            message = {**message, "content": self._forms.content(message["role"], message["content"])}
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
