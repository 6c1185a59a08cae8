"""GenerateRequest: the body of POST /v1/generate."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES
from services.gateway.generation.request import GenerationRequest
from services.gateway.openai.chat.messages import MessagesOrPrompt

_ASKED = ("max_tokens", "stop", "token_records", "pass_reports", "logprobs", "top_candidates", "rank", "entropy")
_OF_CONVERSATIONS = ("template_variables", "add_generation_prompt", "continue_final_message")


class GenerateRequest(GenerationRequest):
    """A text, token ids or a conversation, and what to report of each token and each pass."""

    rpc_names: ClassVar[Mapping[str, str]] = {**COMMON_NAMES, "output.top_candidates": "top_candidates"}

    prompt: str | list[int] | None = Field(None, description="Text or token ids.")
    messages: MessagesOrPrompt = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    token_records: bool | None = None
    pass_reports: bool | None = None
    logprobs: bool | None = None
    top_candidates: int | None = None
    rank: bool | None = None
    entropy: bool | None = None
    template_variables: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    @field_validator(*_OF_CONVERSATIONS)
    @classmethod
    def _is_of_a_conversation(cls, option: object, info: ValidationInfo) -> object:
        if option is not None and info.data.get("prompt") is not None:
            raise ValueError("is for messages, not for a prompt")
        return option

    def prompts(self) -> Seq[Prompt]:
        """Return the one prompt."""
        if self.messages is not None:
            return ([message.as_message() for message in self.messages],)
        assert self.prompt is not None
        return (self.prompt,)

    def options(self) -> GenerateOptions:
        """Return the common options, and those of what to report."""
        options = super().options()
        for name in (*_ASKED, *_OF_CONVERSATIONS):
            options[name] = getattr(self, name)  # type: ignore[literal-required]
        return options
