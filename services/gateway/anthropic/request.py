"""MessageRequest: the body of POST /v1/messages."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from outrider import GenerateOptions, Prompt
from services.gateway.anthropic.blocks import AnthropicMessage, Cached, TextBlock, as_messages, sources_of, text_of
from services.gateway.generation.field_names import COMMON_NAMES, chat_names
from services.gateway.generation.message_source import MessageSource, source_name
from services.gateway.generation.request import GenerationRequest, Part


class AnthropicTool(Cached):
    """What the model may call; Anthropic's own tools are not served."""

    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None


class AnthropicToolChoice(Part):
    """Whether it is to call one."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Part):
    """Whether it is to think, where its template has a variable for that."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: str | None = None


_OF_TOOLS = {
    ".tools[].parameters": "tools[].input_schema",
    ".tool_choice.tool": "tool_choice.name",
    ".tool_choice.mode": "tool_choice.type",
    ".tool_choice.parallel": "tool_choice.disable_parallel_tool_use",
}
_WORDS = {"auto": "auto", "any": "required", "none": "none"}


class MessageRequest(GenerationRequest):
    """A conversation; where its last message is the assistant's, that one is gone on with."""

    rpc_names: ClassVar[Mapping[str, str]] = {
        **COMMON_NAMES,
        **chat_names(_OF_TOOLS),
        "stop.strings": "stop_sequences",
        "stop.max_tokens": "max_tokens",
    }
    reads_messages: ClassVar[bool] = True

    max_tokens: int
    messages: Annotated[list[AnthropicMessage], Field(min_length=1)]
    system: str | list[TextBlock] | None = None
    stop_sequences: list[str] | None = None
    tools: list[AnthropicTool] | None = None
    tool_choice: AnthropicToolChoice | None = None
    thinking: Thinking | None = None
    template_variables: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None

    def prompts(self) -> Seq[Prompt]:
        """The conversation."""
        system = [] if self.system is None else [{"role": "system", "content": text_of(self.system)}]
        return ([*system, *(one for message in self.messages for one in as_messages(message))],)

    def name_of(self, path: str) -> str:
        """What the API calls a field of the RPC's request, where the system and results of calls are messages too."""
        sources = [] if self.system is None else [MessageSource("system")]
        for index, message in enumerate(self.messages):
            sources += sources_of(message, f"messages[{index}]")
        return source_name(path, sources, "input") or super().name_of(path)

    def options(self) -> GenerateOptions:
        """Those that all have, and those of conversations; the answer is read as a message."""
        options = super().options()
        options["message_deltas"] = True
        options["max_tokens"] = self.max_tokens
        options["stop"] = self.stop_sequences
        if self.messages[-1].role == "assistant":
            options["continue_final_message"] = True
        if self.tools:
            options["tools"] = [_tool(tool) for tool in self.tools]
        if self.tools and (choice := self.tool_choice) is not None:
            options["tool_choice"] = _WORDS.get(choice.type) or choice.name
            options["parallel_tool_calls"] = False if choice.disable_parallel_tool_use else None
        thinks = {} if self.thinking is None else {"enable_thinking": self.thinking.type != "disabled"}
        options["template_variables"] = {**thinks, **(self.template_variables or {})} or None
        return options


def _tool(tool: AnthropicTool) -> dict[str, Any]:
    told = {"name": tool.name, "parameters": tool.input_schema}
    return {**told, **tool.model_dump(include={"description", "strict"}, exclude_none=True)}
