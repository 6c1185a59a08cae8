"""GrammarSource: the source of a grammar."""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto

from llguidance import LLMatcher


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

    @property
    def num_bytes(self) -> int:
        """The bytes of all texts together."""
        return sum(len(text.encode()) for text in self.texts)

    def serialized(self) -> str:
        """Return the grammar in llguidance's own format; raises ValueError for a JSON schema that is not JSON."""
        (text, *_) = self.texts
        match self.kind:
            case GrammarKind.JSON_SCHEMA:
                read_json(text)  # the library would embed invalid JSON in its own, with confusing errors
                return LLMatcher.grammar_from_json_schema(text)
            case GrammarKind.REGEX:
                return LLMatcher.grammar_from_regex(text)
            case GrammarKind.LARK:
                return LLMatcher.grammar_from_lark(text)
            case GrammarKind.CHOICE:
                return LLMatcher.grammar_from_regex("|".join(map(re.escape, self.texts)))


def read_json(text: str) -> object:
    """Parse JSON; raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
