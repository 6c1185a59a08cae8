"""AnthropicConversation: the messages and tools in requests of Anthropic's API."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from outrider import ChatOptions
from services.gateway.anthropic.blocks import AnthropicMessage, TextBlock, as_messages, sources_of, text_of
from services.gateway.anthropic.output_config import OutputConfig
from services.gateway.anthropic.service_fields import ServiceFields
from services.gateway.generation.handling import PassedOver
from services.gateway.generation.message_source import MessageSource, source_name
from services.gateway.generation.part import Part
from services.gateway.generation.template_fields import TemplateFields


class AnthropicTool(Part):
    """A tool that the model may call; Anthropic's own tools are not supported."""

    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    cache_control: PassedOver[dict[str, Any]] = None
    defer_loading: PassedOver[bool] = None
    eager_input_streaming: PassedOver[bool] = None
    input_examples: PassedOver[list[Any]] = None
    allowed_callers: PassedOver[list[str]] = None


class AnthropicToolChoice(Part):
    """Whether the model calls a tool."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = Field(None, validate_default=True)
    disable_parallel_tool_use: bool | None = None

    @field_validator("name")
    @classmethod
    def _is_of_a_tool(cls, name: str | None, info: ValidationInfo) -> str | None:
        if "type" in info.data and (name is None) == (info.data["type"] == "tool"):
            raise ValueError("has to be given with the type 'tool', and with no other")
        return name


class Thinking(Part):
    """Whether the model thinks, if its chat template has a variable for that."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: str | None = None


_WORDS = {"auto": "auto", "any": "required", "none": "none"}


class AnthropicConversation(TemplateFields, ServiceFields):
    """A conversation; if its last message is the assistant's, the model continues it."""

    messages: Annotated[list[AnthropicMessage], Field(min_length=1)]
    system: str | list[TextBlock] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    def conversation(self) -> list[dict[str, Any]]:
        """Return the conversation as messages of the client."""
        system = [] if self.system is None else [{"role": "system", "content": text_of(self.system)}]
        return [*system, *(one for message in self.messages for one in as_messages(message))]

    def chat_options(self) -> ChatOptions:
        """Return the client's options for turning the conversation into a prompt."""
        options = ChatOptions()
        if self.messages[-1].role == "assistant":
            options["continue_final_message"] = True
        if self.tools:
            options["tools"] = [_tool(tool) for tool in self.tools]
        if (choice := self.tool_choice) is not None and (self.tools or choice.type in ("any", "tool")):
            options["tool_choice"] = _WORDS.get(choice.type) or choice.name
            options["parallel_tool_calls"] = False if choice.disable_parallel_tool_use else None
        effort = self.output_config and self.output_config.effort
        thinks = None if self.thinking is None else self.thinking.type != "disabled"
        options["template_variables"] = self.variables(enable_thinking=thinks, reasoning_effort=effort)
        return options

    def message_name(self, path: str) -> str | None:
        """Return the API's name of a field of the RPC's messages, which include the system prompt and tool results."""
        sources = [] if self.system is None else [MessageSource("system")]
        for index, message in enumerate(self.messages):
            sources += sources_of(message, f"messages[{index}]")
        return source_name(path, sources)


def _tool(tool: AnthropicTool) -> dict[str, Any]:
    function = {"name": tool.name, "parameters": tool.input_schema}
    return {**function, **tool.model_dump(include={"description", "strict"}, exclude_none=True)}
