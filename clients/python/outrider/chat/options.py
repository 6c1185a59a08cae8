"""ChatOptions: how a conversation becomes a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class ChatOptions(TypedDict, total=False):
    """How a conversation becomes a prompt."""

    tools: Sequence[Mapping[str, Any]] | None
    """What the model may call in a conversation: name, description, parameters and strict, or OpenAI's form of them."""
    tool_choice: str | None
    """"auto", "none", "required", or the tool that is to be called."""
    parallel_tool_calls: bool | None
    template_variables: Mapping[str, Any] | None
    """Further ones of the chat template, such as `enable_thinking`."""
    add_generation_prompt: bool | None
    continue_final_message: bool | None
    """Whether the model continues the last message of the conversation."""
