"""ChatRequest: the body of POST /v1/chat/completions."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES, chat_names
from services.gateway.generation.request import GenerationRequest, only_grammar
from services.gateway.openai.chat.messages import ChatMessage, Format, Tool, ToolChoice, choice_name, schema_of
from services.gateway.openai.ignored import IgnoredFields, StreamOptions

_OF_MESSAGES = {
    ".messages[].parts[]": "messages[].content[]",
    ".messages[].tool_calls[].name": "messages[].tool_calls[].function.name",
    ".tools[].name": "tools[].function.name",
    ".tools[].parameters": "tools[].function.parameters",
    ".tool_choice.tool": "tool_choice.function.name",
}


class ChatRequest(GenerationRequest, IgnoredFields):
    """A conversation, and the options of the model's answer."""

    rpc_names: ClassVar[Mapping[str, str]] = {
        **COMMON_NAMES,
        **chat_names(_OF_MESSAGES),
        "output.top_candidates": "top_logprobs",
        "grammar": "response_format",
        "grammar.json_schema": "response_format.json_schema.schema",
    }
    reads_messages: ClassVar[bool] = True

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: int | None = None
    max_tokens: int | None = Field(None, description="The older name of max_completion_tokens.")
    stop: str | list[str] | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0)] | None = None
    stream_options: StreamOptions | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: Format | None = None
    reasoning_effort: str | None = Field(None, description="Passed to the chat template as a variable.")
    template_variables: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    modalities: list[Literal["text"]] | None = None

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top and not info.data.get("logprobs"):
            raise ValueError(f"is {top}, which needs logprobs to be true")
        return top

    @field_validator("response_format")
    @classmethod
    def _is_the_only_form(cls, wanted: Format | None, info: ValidationInfo) -> Format | None:
        if schema_of(wanted) is not None:
            only_grammar(wanted, info)
        return wanted

    def prompts(self) -> Seq[Prompt]:
        """Return the conversation, the only prompt."""
        return ([message.as_message() for message in self.messages],)

    @property
    def samples(self) -> int:
        """The number of answers."""
        return self.n or 1

    def options(self) -> GenerateOptions:
        """Return the common options and those of conversations; the answer is parsed as a message."""
        options = super().options()
        options["message_deltas"] = True
        most = self.max_completion_tokens
        options["max_tokens"] = self.max_tokens if most is None else most
        options["stop"] = self.stop
        if (schema := schema_of(self.response_format)) is not None:
            options["json_schema"] = schema
        if self.logprobs:
            options["logprobs"] = True
            options["top_candidates"] = self.top_logprobs
        if self.tools:
            options["tools"] = [tool.function.model_dump(exclude_none=True) for tool in self.tools]
            options["parallel_tool_calls"] = self.parallel_tool_calls
        if self.tool_choice is not None and (self.tools or self.tool_choice not in ("auto", "none")):
            options["tool_choice"] = choice_name(self.tool_choice)
        options["template_variables"] = self._variables()
        options["add_generation_prompt"] = self.add_generation_prompt
        options["continue_final_message"] = self.continue_final_message
        return options

    def _variables(self) -> dict[str, Any] | None:
        effort = {} if self.reasoning_effort is None else {"reasoning_effort": self.reasoning_effort}
        return {**effort, **(self.template_variables or {})} or None
