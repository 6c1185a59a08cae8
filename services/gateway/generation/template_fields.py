"""TemplateFields, ConversationFields: how requests with conversations are rendered by the chat template."""

from typing import Any, Self

from pydantic import model_validator

from outrider import ChatOptions
from services.gateway.generation.handling import same_as
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.synonyms import Synonyms

_OF_CONVERSATIONS = ("template_variables", "add_generation_prompt", "continue_final_message", "tools")


class TemplateFields(Synonyms):
    """A request that may give variables of the chat template."""

    template_variables: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = same_as("template_variables")

    def variables(self, **defaults: object) -> dict[str, Any] | None:
        """Return the variables of the request, which replace `defaults` that are not None."""
        known = {name: value for name, value in defaults.items() if value is not None}
        return {**known, **(self.value_of("template_variables") or {})} or None


class ConversationFields(TemplateFields):
    """A request that may also decide how the prompt ends; not for a request with a `prompt`."""

    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    @model_validator(mode="after")
    def _is_of_a_conversation(self) -> Self:
        if getattr(self, "prompt", None) is not None:
            for name in _OF_CONVERSATIONS:
                if name in type(self).model_fields and self.value_of(name) is not None:
                    used = self.name_in_use(name)
                    raise Problem(Kind.INVALID, f"{used}: is for messages, not for a prompt", used)
        return self

    def template_options(self, **defaults: object) -> ChatOptions:
        """Return the client's options for these fields; `defaults` are variables of the template."""
        return ChatOptions(
            template_variables=self.variables(**defaults),
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message,
        )
