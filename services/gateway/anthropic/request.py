"""MessageRequest: the body of POST /v1/messages."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import ClassVar

from pydantic import Field

from outrider import GenerateOptions, Prompt
from services.gateway.anthropic.conversation import AnthropicConversation
from services.gateway.anthropic.output_config import OutputFormat
from services.gateway.generation.field_names import COMMON_NAMES, chat_names
from services.gateway.generation.grammars import Grammar
from services.gateway.generation.request import GenerationRequest

_OF_TOOLS = {
    ".tools[].parameters": "tools[].input_schema",
    ".tool_choice.tool": "tool_choice.name",
    ".tool_choice.mode": "tool_choice.type",
    ".tool_choice.parallel": "tool_choice.disable_parallel_tool_use",
}
RPC_NAMES: Mapping[str, str] = {
    **COMMON_NAMES,
    **chat_names(_OF_TOOLS),
    "stop.strings": "stop_sequences",
    "stop.max_tokens": "max_tokens",
}


class MessageRequest(GenerationRequest, AnthropicConversation):
    """A conversation, and the options of the model's answer."""

    rpc_names: ClassVar[Mapping[str, str]] = RPC_NAMES
    reads_messages: ClassVar[bool] = True

    max_tokens: int
    stop_sequences: list[str] | None = None
    output_format: OutputFormat | None = Field(None, description="The older place of `output_config.format`.")

    def grammars(self) -> list[Grammar]:
        """Return the grammars that the request gives, including those of the output format."""
        config = self.output_config
        formats = {
            "output_config.format": None if config is None else config.format,
            "output_format": self.output_format,
        }
        own = [wanted.grammar(field) for field, wanted in formats.items() if wanted is not None]
        return [*super().grammars(), *own]

    def prompts(self) -> Seq[Prompt]:
        """Return the conversation, the only prompt."""
        return (self.conversation(),)

    def name_of(self, path: str) -> str:
        """Return the API's name of a field of the RPC's request."""
        return self.message_name(path) or super().name_of(path)

    def options(self) -> GenerateOptions:
        """Return the common options and those of conversations; the answer is parsed as a message."""
        own = GenerateOptions(message_deltas=True, max_tokens=self.max_tokens, stop=self.stop_sequences)
        return {**super().options(), **self.chat_options(), **own}
