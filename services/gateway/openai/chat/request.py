"""ChatRequest: the body of POST /v1/chat/completions."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES, chat_names
from services.gateway.generation.handling import OrMinusOne, PassedOver, Refused, refused_unless, same_as
from services.gateway.generation.request import GenerationRequest
from services.gateway.generation.template_fields import ConversationFields
from services.gateway.openai.answer_fields import AnswerFields
from services.gateway.openai.chat.messages import ChatMessage, Prediction, Tool, ToolChoice, choice_name
from services.gateway.openai.formatted_answer import FormattedAnswer
from services.gateway.openai.ignored import IgnoredFields

_OF_MESSAGES = {
    ".messages[].parts[]": "messages[].content[]",
    ".messages[].tool_calls[].name": "messages[].tool_calls[].function.name",
    ".tools[].name": "tools[].function.name",
    ".tools[].parameters": "tools[].function.parameters",
    ".tool_choice.tool": "tool_choice.function.name",
}


class ChatRequest(FormattedAnswer, GenerationRequest, ConversationFields, AnswerFields, IgnoredFields):
    """A conversation, and the options of the model's answer."""

    rpc_names: ClassVar[Mapping[str, str]] = {
        **COMMON_NAMES,
        **chat_names(_OF_MESSAGES),
        "output.top_candidates": "top_logprobs",
    }
    reads_messages: ClassVar[bool] = True

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: OrMinusOne[int] = None
    max_tokens: OrMinusOne[int] = Field(None, description="The older name of max_completion_tokens.")
    n_predict: OrMinusOne[int] = same_as("max_tokens")
    stop: str | list[str] | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0)] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = Field(None, description="Passed to the chat template as a variable.")
    modalities: list[Literal["text"]] | None = None
    verbosity: PassedOver[str] = None
    prediction: Prediction | None = Field(None, description="A text that the answer repeats in large parts.")
    include_reasoning: Annotated[Any, *refused_unless(True)] = None
    separate_reasoning: Annotated[Any, *refused_unless(True)] = None
    audio: Refused = None
    functions: Refused = None
    function_call: Refused = None
    web_search_options: Refused = None
    documents: Refused = None
    chat_template: Refused = None
    echo: Refused = None

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, top: int | None, info: ValidationInfo) -> int | None:
        if top and not info.data.get("logprobs"):
            raise ValueError(f"is {top}, which needs logprobs to be true")
        return top

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
        options["max_tokens"] = self.value_of("max_tokens") if most is None else most
        options["stop"] = self.stop
        if self.logprobs:
            options["logprobs"] = True
            options["top_candidates"] = self.top_logprobs
        if self.tools:
            options["tools"] = [tool.function.model_dump(exclude_none=True) for tool in self.tools]
            options["parallel_tool_calls"] = self.parallel_tool_calls
        if self.prediction is not None and options.get("speculation") != "never":
            options.setdefault("expected_text", self.prediction.text)
        if self.tool_choice is not None and (self.tools or self.tool_choice not in ("auto", "none")):
            options["tool_choice"] = choice_name(self.tool_choice)
        return {**options, **self.template_options(reasoning_effort=self.reasoning_effort)}
