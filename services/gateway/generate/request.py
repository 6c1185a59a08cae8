"""GenerateRequest: the body of POST /v1/generate."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import ClassVar

from pydantic import Field

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES
from services.gateway.generation.handling import OrMinusOne, same_as
from services.gateway.generation.request import GenerationRequest
from services.gateway.generation.template_fields import ConversationFields
from services.gateway.openai.chat.messages import MessagesOrPrompt

_ASKED = ("max_tokens", "stop", "token_records", "pass_reports", "logprobs", "top_candidates", "rank", "entropy")


class GenerateRequest(GenerationRequest, ConversationFields):
    """A text, token ids or a conversation, and what to report of each token and each pass."""

    rpc_names: ClassVar[Mapping[str, str]] = {**COMMON_NAMES, "output.top_candidates": "top_candidates"}

    prompt: str | list[int] | None = Field(None, description="Text or token ids.")
    messages: MessagesOrPrompt = None
    max_tokens: OrMinusOne[int] = None
    n_predict: OrMinusOne[int] = same_as("max_tokens")
    stop: str | list[str] | None = None
    token_records: bool | None = None
    pass_reports: bool | None = None
    logprobs: bool | None = None
    top_candidates: int | None = None
    rank: bool | None = None
    entropy: bool | None = None

    def prompts(self) -> Seq[Prompt]:
        """Return the one prompt."""
        if self.messages is not None:
            return ([message.as_message() for message in self.messages],)
        assert self.prompt is not None
        return (self.prompt,)

    def options(self) -> GenerateOptions:
        """Return the common options, and those of what to report."""
        options: GenerateOptions = {**super().options(), **self.template_options()}
        for name in _ASKED:
            options[name] = self.value_of(name)  # type: ignore[literal-required]
        return options
