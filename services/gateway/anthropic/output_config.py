"""OutputConfig: the format of the answer, and how much the model thinks, in requests of Anthropic's API."""

from typing import Any, Literal

from pydantic import Field

from services.gateway.generation.grammars import Grammar
from services.gateway.generation.handling import PassedOver
from services.gateway.generation.part import Part


class OutputFormat(Part):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")

    def grammar(self, field: str) -> Grammar:
        """Return the grammar of the answer; `field` is the path of this object."""
        return Grammar(field, "json_schema", self.schema_, f"{field}.schema")


class OutputConfig(Part):
    """The format of the answer, and how much the model thinks, if its chat template has a variable for that."""

    effort: str | None = None
    format: OutputFormat | None = None
    task_budget: PassedOver[dict[str, Any]] = None
