"""What a request for a response may hold: items of a conversation, tools and formats; and as messages of ours."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

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


def messages_of(said: str | Iterable[Item], instructions: str | None) -> list[dict[str, Any]]:
    """The conversation as the client takes it: what was thought and called becomes part of the message that follows."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(said, str):
        return [*messages, {"role": "user", "content": said}]
    for item in said:
        match item:
            case MessageItem(role="assistant"):
                _speaking(messages)["content"] = _text(item.content)
            case MessageItem():
                role = "system" if item.role == "developer" else item.role
                messages.append({"role": role, "content": _text(item.content)})
            case CallItem():
                call = {"id": item.call_id, "function": {"name": item.name, "arguments": item.arguments}}
                _assistant(messages).setdefault("tool_calls", []).append(call)
            case CallOutputItem():
                messages.append({"role": "tool", "tool_call_id": item.call_id, "content": item.output})
            case ReasoningItem():
                messages.append({"role": "assistant", "content": None})
                messages[-1]["reasoning_content"] = _text(item.content or item.summary)
    return messages


def _assistant(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message that the conversation ends with; one begins where there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _speaking(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The same for a text: what has said or called something already is over, and another message begins."""
    last = _assistant(messages)
    if last["content"] is not None or "tool_calls" in last:
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _text(content: str | Iterable[ResponseText]) -> str:
    return content if isinstance(content, str) else "\n".join(part.text for part in content)
