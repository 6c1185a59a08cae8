"""FormattedAnswer: the response format of completions and chat completions."""

from services.gateway.generation.grammars import Grammar, GrammarFields
from services.gateway.openai.chat.messages import Format, schema_of


class FormattedAnswer(GrammarFields):
    """A request whose answer may be JSON."""

    response_format: Format | None = None

    def grammars(self) -> list[Grammar]:
        """Return the grammars that the request gives, including that of the response format."""
        if (schema := schema_of(self.response_format)) is None:
            return super().grammars()
        path = "response_format.json_schema.schema"
        return [*super().grammars(), Grammar("response_format", "json_schema", schema, path)]
