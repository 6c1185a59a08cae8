"""ResponseRequest: the body of POST /v1/responses."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES, chat_names
from services.gateway.generation.grammars import ANY_OBJECT, Grammar
from services.gateway.generation.handling import REFUSED, OrMinusOne, PassedOver, Refused
from services.gateway.generation.message_source import source_name
from services.gateway.generation.part import Part
from services.gateway.generation.request import GenerationRequest
from services.gateway.generation.template_fields import TemplateFields
from services.gateway.openai.chat.messages import ObjectFormat
from services.gateway.openai.ignored import IgnoredFields
from services.gateway.openai.responses.items import (
    Item,
    ItemConversation,
    ResponseSchema,
    ResponseTool,
    ResponseToolChoice,
    TextSettings,
)

LOGPROBS = "message.output_text.logprobs"
_OF_TOOLS = {"name", "description", "parameters", "strict"}


Included = Literal[
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""Parts of answers that OpenAI's API includes on request; those of OpenAI's own tools never occur here."""


class Reasoning(Part):
    """How much the model thinks, if its chat template has a variable for that."""

    effort: str | None = None
    summary: PassedOver[str] = None
    generate_summary: PassedOver[str] = None


class ResponseRequest(GenerationRequest, TemplateFields, IgnoredFields):
    """A whole conversation; earlier messages are not stored on the server."""

    rpc_names: ClassVar[Mapping[str, str]] = {
        **COMMON_NAMES,
        **chat_names({"": "input", ".messages": "input", ".tool_choice.tool": "tool_choice.name"}),
        "stop.max_tokens": "max_output_tokens",
        "output.top_candidates": "top_logprobs",
    }
    reads_messages: ClassVar[bool] = True

    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: OrMinusOne[int] = None
    stop: str | list[str] | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ResponseToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextSettings | None = None
    reasoning: Reasoning | None = None
    include: list[Included] | None = Field(
        None, description="Log-probabilities, for answers without tools. Thinking is never encrypted."
    )
    top_logprobs: Annotated[int, Field(ge=0)] | None = None
    truncation: PassedOver[Literal["auto", "disabled"]] = Field(
        None, description="No part of the input is left out: one that is too long is refused."
    )
    stream_options: PassedOver[dict[str, Any]] = None
    client_metadata: PassedOver[dict[str, Any]] = None
    max_tool_calls: PassedOver[int] = Field(None, description="It limits OpenAI's own tools, which are not supported.")
    context_management: Refused = None
    background: Refused = None
    conversation: Refused = None
    prompt: Refused = None
    previous_response_id: str | None = Field(
        None, description="Not supported: nothing is stored.", json_schema_extra=REFUSED
    )

    @field_validator("input", mode="before")
    @classmethod
    def _has_items(cls, items: object) -> object:
        if items == []:
            raise ValueError("must not be empty")
        return items

    @field_validator("previous_response_id")
    @classmethod
    def _nothing_is_stored(cls, name: str | None) -> str | None:
        if name is not None:
            raise ValueError("is not supported, as no response is stored; send the whole conversation as input")
        return name

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities are requested."""
        return LOGPROBS in (self.include or ())

    @field_validator("include")
    @classmethod
    def _needs_one_message(cls, include: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if LOGPROBS in (include or ()) and info.data.get("tools"):
            raise ValueError(f"has {LOGPROBS!r}, which needs a request without tools; use chat completions instead")
        return include

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top and LOGPROBS not in (info.data.get("include") or ()):
            raise ValueError(f"is {top}, which needs {LOGPROBS!r} in include")
        return top

    def grammars(self) -> list[Grammar]:
        """Return the grammars that the request gives, including that of the text's format."""
        match self.text.format if self.text else None:
            case ResponseSchema() as wanted:
                own = [Grammar("text.format", "json_schema", wanted.schema_, "text.format.schema")]
            case ObjectFormat():
                own = [Grammar("text.format", "json_schema", ANY_OBJECT, "text.format")]
            case _:
                own = []
        return [*super().grammars(), *own]

    def prompts(self) -> Seq[Prompt]:
        """Return the conversation, the only prompt."""
        return (ItemConversation(self.input, self.instructions).messages,)

    def name_of(self, path: str) -> str:
        """Return the API's name of a field of the RPC's request, whose messages are made from items."""
        sources = ItemConversation(self.input, self.instructions).sources
        return source_name(path, sources) or super().name_of(path)

    def options(self) -> GenerateOptions:
        """Return the common options and those of conversations; the answer is parsed as a message."""
        options = super().options()
        options["message_deltas"] = True
        options["max_tokens"] = self.max_output_tokens
        options["stop"] = self.stop
        if self.wants_logprobs:
            options["logprobs"] = True
            options["top_candidates"] = self.top_logprobs
        if self.tools:
            options["tools"] = [tool.model_dump(exclude_none=True, include=_OF_TOOLS) for tool in self.tools]
            options["parallel_tool_calls"] = self.parallel_tool_calls
        if self.tool_choice is not None and (self.tools or self.tool_choice not in ("auto", "none")):
            choice = self.tool_choice
            options["tool_choice"] = choice if isinstance(choice, str) else choice.name
        options["template_variables"] = self.variables(reasoning_effort=self.reasoning and self.reasoning.effort)
        return options
