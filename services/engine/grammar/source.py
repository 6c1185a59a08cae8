"""GrammarSource: the source of a grammar."""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto

from llguidance import LLMatcher

from services.engine.grammar.reasoning import ReasoningMarks
from services.engine.grammar.schema import HasMoreKeys, held_schema, held_schemas_in_lark
from services.engine.text.tokenizer import Tokenizer

# Without a bound, a model may write nothing but white space. A schema's own settings replace it.
_SETTINGS = "x-guidance"
_WHITE_SPACE = json.dumps({"whitespace_pattern": r"[ \t\n\r]{0,20}"})


class GrammarKind(Enum):
    """The language of a grammar."""

    JSON_SCHEMA = auto()
    REGEX = auto()
    LARK = auto()
    CHOICE = auto()


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """The source of a grammar: one text, or for a choice the texts to choose from."""

    kind: GrammarKind
    texts: tuple[str, ...]
    prefers_end: bool = False  # the generated text ends as soon as the grammar allows it
    reasoning: ReasoningMarks | None = None  # that may come before the text

    @property
    def num_bytes(self) -> int:
        """The bytes of all texts and marks together."""
        marks = () if self.reasoning is None else (self.reasoning.start, self.reasoning.end)
        return sum(len(text.encode()) for text in (*self.texts, *marks))

    def serialized(self, tokenizer: Tokenizer, has_more_keys: HasMoreKeys) -> str:
        """Return the grammar in llguidance's own format; raises ValueError for a JSON schema that cannot be followed.

        `has_more_keys` examines patterns of keys in schemas.
        """
        own = self._own(has_more_keys)
        if self.reasoning is None:
            return f'{{"grammars": [{{{own}}}]}}'
        lines = ["start: reasoning @text", *self.reasoning.lines(tokenizer)]
        before = json.dumps({"lark_grammar": "\n".join(lines)})
        return f'{{"grammars": [{before}, {{"name": "text", {own}}}]}}'

    @property
    def spacing(self) -> object:
        """The settings of a JSON schema for white space; raises ValueError if it is no object in JSON."""
        schema = read_json(_with_settings(self.texts[0]))
        if not isinstance(schema, dict):
            raise ValueError("it is no object in JSON")
        return schema.get(_SETTINGS)

    def as_rule(self, name: str) -> str:
        """Return a rule of a Lark grammar that matches the text; raises ValueError for a schema that is no JSON.

        The grammar must not be one in Lark, which has rules with names of their own.
        """
        if self.kind is GrammarKind.JSON_SCHEMA:
            return f"{name}: %json {_with_settings(self.texts[0])}"
        return _of_regex(self._regex()).replace("start:", f"{name}:", 1)

    def _own(self, has_more_keys: HasMoreKeys) -> str:
        """The text's grammar as a field in JSON."""
        (text, *_) = self.texts
        match self.kind:
            case GrammarKind.JSON_SCHEMA:
                return f'"json_schema": {_with_settings(_held(text, has_more_keys))}'
            case GrammarKind.LARK:
                return _lark(held_schemas_in_lark(text, has_more_keys))
            case GrammarKind.REGEX | GrammarKind.CHOICE:
                return _lark(_of_regex(self._regex()))

    def _regex(self) -> str:
        return self.texts[0] if self.kind is GrammarKind.REGEX else "|".join(map(re.escape, self.texts))


def _of_regex(regex: str) -> str:
    (grammar,) = json.loads(LLMatcher.grammar_from_regex(regex))["grammars"]
    return str(grammar["lark_grammar"])


def _lark(text: str) -> str:
    return f'"lark_grammar": {json.dumps(text)}'


def _held(schema: str, has_more_keys: HasMoreKeys) -> str:
    """A schema that can be followed; an unchanged one is not encoded again, so its numbers stay as they are."""
    original = read_json(schema)  # the library would embed invalid JSON in its own, with confusing errors
    value = held_schema(original, has_more_keys)
    return schema if value == original else json.dumps(value)


def _with_settings(schema: str) -> str:
    """A schema with settings for white space, in the same text."""
    value = read_json(schema)
    if value is True:  # any JSON
        value, schema = {}, "{}"
    if not isinstance(value, dict) or _SETTINGS in value:
        return schema
    rest = schema.lstrip().removeprefix("{")
    return f'{{"{_SETTINGS}": {_WHITE_SPACE}{"," if value else ""}{rest}'


def read_json(text: str) -> object:
    """Parse JSON; raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
