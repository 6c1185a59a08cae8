"""Messages, tools and formats of chat completions, and their conversion for the RPC's client."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, ValidationInfo

from services.gateway.generation.grammars import ANY_OBJECT
from services.gateway.generation.history import HistoryPart
from services.gateway.generation.part import Part


class TextPart(HistoryPart):
    """A text in a message; images, sound and files are not supported."""

    type: Literal["text", "input_text", "output_text"] = "text"
    text: str


class RefusalPart(HistoryPart):
    """A refusal in a message of the assistant, which counts as text."""

    type: Literal["refusal"]
    refusal: str


class CalledFunction(HistoryPart):
    """A function that the model has called."""

    name: str
    arguments: str | dict[str, Any] | None = None


class Call(HistoryPart):
    """A tool call in a message of the assistant."""

    id: str | None = None
    type: Literal["function"] | None = "function"
    function: CalledFunction

    def as_call(self) -> dict[str, Any]:
        """Convert the call for the client."""
        return {"id": self.id, "function": {"name": self.function.name, "arguments": self.function.arguments}}


class ChatMessage(HistoryPart):
    """One message. A field without effect on the prompt is passed over."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart | RefusalPart] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = Field(None, description="Another name of reasoning_content.")
    function_call: CalledFunction | None = Field(None, description="The older form of tool_calls.")

    def as_message(self) -> dict[str, Any]:
        """Convert the message for the client; roles that chat templates do not know become those that they do."""
        message: dict[str, Any] = {"role": _ROLES.get(self.role, self.role), "content": self._content()}
        for name in ("name", "tool_call_id"):
            if (value := getattr(self, name)) is not None:
                message[name] = value
        if (reasoning := self.reasoning_content or self.reasoning) is not None:
            message["reasoning_content"] = reasoning
        calls = [*(self.tool_calls or ()), *([] if (old := self.function_call) is None else [Call(function=old)])]
        if calls:
            message["tool_calls"] = [call.as_call() for call in calls]
        return message

    def _content(self) -> str | list[str] | None:
        if isinstance(self.content, str | None):
            return self.content
        return [part.text if isinstance(part, TextPart) else part.refusal for part in self.content]


class Prediction(Part):
    """A text that the answer is expected to repeat in large parts."""

    type: Literal["content"] = "content"
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        """The whole text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


_ROLES = {"developer": "system", "function": "tool"}


def _instead_of_a_prompt(messages: list[ChatMessage] | None, info: ValidationInfo) -> list[ChatMessage] | None:
    if "prompt" in info.data and (messages is None) == (info.data["prompt"] is None):
        raise ValueError("either prompt or messages must be given")
    return messages


MessagesOrPrompt = Annotated[
    Annotated[list[ChatMessage], Field(min_length=1)] | None,
    Field(validate_default=True),
    AfterValidator(_instead_of_a_prompt),
]
"""Messages, or None if the field `prompt`, which must be declared before this one, is given."""


class Function(Part):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Part):
    """A tool, which must be a function."""

    type: Literal["function"]
    function: Function


class NamedFunction(Part):
    """The name of a function."""

    name: str


class ChosenTool(Part):
    """The tool that the model must call."""

    type: Literal["function"]
    function: NamedFunction


ToolChoice = Literal["none", "auto", "required"] | ChosenTool


class TextFormat(Part):
    """The answer may be any text."""

    type: Literal["text"]


class ObjectFormat(Part):
    """The answer is a JSON object."""

    type: Literal["json_object"]


class JsonSchema(Part):
    """A JSON schema; the answer always matches it, also without `strict`."""

    name: str
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(Part):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


Format = Annotated[TextFormat | ObjectFormat | SchemaFormat, Discriminator("type")]


def schema_of(wanted: TextFormat | ObjectFormat | SchemaFormat | None) -> Mapping[str, Any] | None:
    """Return the JSON schema of a format, None for any text."""
    if wanted is None or isinstance(wanted, TextFormat):
        return None
    if isinstance(wanted, ObjectFormat) or wanted.json_schema.schema_ is None:
        return ANY_OBJECT
    return wanted.json_schema.schema_


def choice_name(choice: ToolChoice) -> str:
    """Return a choice for the client: one of three words, or a tool's name."""
    return choice if isinstance(choice, str) else choice.function.name
