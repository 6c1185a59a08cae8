"""Conversation: messages, and the other inputs of a chat template."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

from services.target.prompt.chat_template import ChatTemplate


@dataclass(frozen=True, slots=True)
class Conversation:
    """The arguments of `ChatTemplate.render`."""

    messages: Seq[Mapping[str, Any]]
    tools: Seq[Mapping[str, Any]] | None = None
    variables: Mapping[str, Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    def render(self, template: ChatTemplate) -> str:
        """The prompt text; raises ChatTemplateError."""
        return template.render(
            self.messages,
            tools=self.tools,
            variables=self.variables,
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message,
        )
