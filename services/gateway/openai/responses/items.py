"""What a request for a response may hold: items of a conversation, tools and formats; and as messages of ours."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from services.gateway.generation.message_source import MessageSource
from services.gateway.generation.request import Part
from services.gateway.openai.chat.messages import ObjectFormat, TextFormat

_ID = "what a stored item is called; nothing is stored"


class ResponseText(Part):
    """A text in a message; what an answer of ours has beside it may come back."""

    type: Literal["input_text", "output_text", "text", "reasoning_text", "summary_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None
    parsed: Any = None  # as OpenAI's client adds it


class MessageItem(Part):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ResponseText]
    id: str | None = Field(None, description=_ID)
    status: str | None = None


class CallItem(Part):
    """A call of the model's."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    parsed_arguments: Any = None  # as OpenAI's client adds them
    id: str | None = Field(None, description=_ID)
    status: str | None = None


class CallOutputItem(Part):
    """What a call has given."""

    type: Literal["function_call_output"]
    call_id: str
    output: str
    id: str | None = Field(None, description=_ID)
    status: str | None = None


class ReasoningItem(Part):
    """What the model thought before."""

    type: Literal["reasoning"]
    summary: list[ResponseText] = Field(default_factory=list)
    content: list[ResponseText] | None = None
    encrypted_content: None = None
    id: str | None = Field(None, description=_ID)
    status: str | None = None


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
    """A function that the model may call; OpenAI's own tools are not served."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseToolChoice(Part):
    """The tool that is to be called."""

    type: Literal["function"]
    name: str


class ResponseSchema(Part):
    """JSON by a schema."""

    type: Literal["json_schema"]
    name: str
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextSettings(Part):
    """What the text is to be."""

    format: Annotated[TextFormat | ObjectFormat | ResponseSchema, Discriminator("type")] | None = None
    verbosity: str | None = None


class Said:
    """A conversation as the client takes it: what was thought and called becomes part of the message that follows."""

    def __init__(self, said: str | Iterable[Item], instructions: str | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.sources: list[MessageSource] = []
        """Where each message comes from."""
        if instructions:
            self._begin("system", instructions, "instructions")
        if isinstance(said, str):
            self._begin("user", said, "input")
            return
        for index, item in enumerate(said):
            self._add(item, f"input[{index}]")

    def _add(self, item: Item, name: str) -> None:
        match item:
            case MessageItem(role="assistant"):
                self._speaking(name)["content"] = _text(item.content)
            case MessageItem():
                self._begin("system" if item.role == "developer" else item.role, _text(item.content), name)
            case CallItem():
                call = {"id": item.call_id, "function": {"name": item.name, "arguments": item.arguments}}
                self._assistant(name).setdefault("tool_calls", []).append(call)
                self.sources[-1].calls.append(name)
            case CallOutputItem():
                self._begin("tool", item.output, name)["tool_call_id"] = item.call_id
            case ReasoningItem():
                self._begin("assistant", None, name)["reasoning_content"] = _text(item.content or item.summary)

    def _begin(self, role: str, content: str | None, name: str) -> dict[str, Any]:
        self.messages.append({"role": role, "content": content})
        self.sources.append(MessageSource(name))
        return self.messages[-1]

    def _assistant(self, name: str) -> dict[str, Any]:
        """The assistant's message that the conversation ends with; one begins where there is none."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self._begin("assistant", None, name)
        return self.messages[-1]

    def _speaking(self, name: str) -> dict[str, Any]:
        """The same for a text: what has said or called something already is over, and another message begins."""
        last = self._assistant(name)
        if last["content"] is not None or "tool_calls" in last:
            self._begin("assistant", None, name)
        return self.messages[-1]


def _text(content: str | Iterable[ResponseText]) -> str:
    return content if isinstance(content, str) else "\n".join(part.text for part in content)
