"""The items, tools and formats in requests for a response, and their conversion to messages of the client."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from services.gateway.generation.handling import PassedOver
from services.gateway.generation.history import HistoryPart
from services.gateway.generation.message_source import MessageSource
from services.gateway.generation.part import Part
from services.gateway.openai.chat.messages import ObjectFormat, TextFormat

_ID = "The id of a stored item. Ignored: nothing is stored."


class ResponseText(HistoryPart):
    """A text in a message, or in the result of a tool."""

    type: Literal["input_text", "output_text", "text", "reasoning_text", "summary_text"]
    text: str


class ResponseRefusal(HistoryPart):
    """A refusal in a message of the assistant, which counts as text."""

    type: Literal["refusal"]
    refusal: str


Texts = list[Annotated[ResponseText | ResponseRefusal, Discriminator("type")]]


class MessageItem(HistoryPart):
    """A message of the conversation."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Texts | None
    id: str | None = Field(None, description=_ID)


class CallItem(HistoryPart):
    """A tool call of the model."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str | None = None
    id: str | None = Field(None, description=_ID)


class CallOutputItem(HistoryPart):
    """The result of a tool call."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | Texts
    id: str | None = Field(None, description=_ID)


class ReasoningItem(HistoryPart):
    """Thinking of the model in an earlier answer."""

    type: Literal["reasoning"]
    summary: list[ResponseText] | None = None
    content: list[ResponseText] | None = None
    id: str | None = Field(None, description=_ID)


def _kind(item: object) -> str:
    kind = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return kind if isinstance(kind, str) else "message"


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[CallOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind),
]


class ResponseTool(Part):
    """A function that the model may call; OpenAI's own tools are not supported."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: PassedOver[bool] = None


class ResponseToolChoice(Part):
    """The tool that the model must call."""

    type: Literal["function"]
    name: str


class ResponseSchema(Part):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    name: str
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextSettings(Part):
    """The format of the answer's text."""

    format: Annotated[TextFormat | ObjectFormat | ResponseSchema, Discriminator("type")] | None = None
    verbosity: str | None = None


class ItemConversation:
    """A conversation of items as messages of the client; thinking and tool calls become part of one message."""

    def __init__(self, items: str | Iterable[Item], instructions: str | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.sources: list[MessageSource] = []
        """The source of each message, for the field names of errors."""
        if instructions:
            self._begin("system", instructions, "instructions")
        if isinstance(items, str):
            self._begin("user", items, "input")
            return
        for index, item in enumerate(items):
            self._add(item, f"input[{index}]")

    def _add(self, item: Item, name: str) -> None:
        match item:
            case MessageItem(role="assistant"):
                self._speaking(name)["content"] = _text(item.content)
            case MessageItem():
                self._begin("system" if item.role == "developer" else item.role, _text(item.content), name)
            case CallItem():
                call = {"id": item.call_id, "function": {"name": item.name, "arguments": item.arguments or ""}}
                self._assistant(name).setdefault("tool_calls", []).append(call)
                self.sources[-1].calls.append(name)
            case CallOutputItem():
                self._begin("tool", _text(item.output), name)["tool_call_id"] = item.call_id
            case ReasoningItem():
                self._begin("assistant", None, name)["reasoning_content"] = _text(item.content or item.summary or "")

    def _begin(self, role: str, content: str | None, name: str) -> dict[str, Any]:
        self.messages.append({"role": role, "content": content})
        self.sources.append(MessageSource(name))
        return self.messages[-1]

    def _assistant(self, name: str) -> dict[str, Any]:
        """Return the assistant's message at the end of the conversation, after adding one if there is none."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self._begin("assistant", None, name)
        return self.messages[-1]

    def _speaking(self, name: str) -> dict[str, Any]:
        """Return such a message for a text; one that already has a text or calls is followed by a new one."""
        last = self._assistant(name)
        if last["content"] is not None or "tool_calls" in last:
            self._begin("assistant", None, name)
        return self.messages[-1]


def _text(content: str | Iterable[ResponseText | ResponseRefusal] | None) -> str:
    if isinstance(content, str | None):
        return content or ""
    return "\n".join(part.text if isinstance(part, ResponseText) else part.refusal for part in content)
