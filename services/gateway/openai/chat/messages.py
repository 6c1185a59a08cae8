"""Messages, tools and formats of chat completions, and their conversion for the RPC's client."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, ValidationInfo

from services.gateway.generation.grammars import ANY_OBJECT
from services.gateway.generation.part import Part


class TextPart(Part):
    """A part of a message; images, sound and files are not supported."""

    type: Literal["text"]
    text: str


class CalledFunction(Part):
    """A function that the model has called."""

    name: str
    arguments: str


class Call(Part):
    """A tool call in a message of the assistant."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None  # as in the events of a stream


class ChatMessage(Part):
    """One message. The fields that only answers of ours or of OpenAI have are accepted if they are empty."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: None = None
    audio: None = None
    annotations: Annotated[list[None], Field(max_length=0)] | None = None
    function_call: None = None

    def as_message(self) -> dict[str, Any]:
        """Convert the message for the client; the role `developer`, unknown to chat templates, becomes `system`."""
        role = "system" if self.role == "developer" else self.role
        content = self.content if isinstance(self.content, str | None) else [part.model_dump() for part in self.content]
        message: dict[str, Any] = {"role": role, "content": content}
        for name in ("name", "tool_call_id", "reasoning_content"):
            if (value := getattr(self, name)) is not None:
                message[name] = value
        if self.tool_calls:
            message["tool_calls"] = [call.model_dump(exclude={"index"}) for call in self.tool_calls]
        return message


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
