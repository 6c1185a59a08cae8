"""GrammarSource: a grammar as it was written."""

import json
import re
from dataclasses import dataclass
from enum import Enum, auto

from llguidance import LLMatcher


class GrammarKind(Enum):
    """What a grammar is written in."""

    JSON_SCHEMA = auto()
    REGEX = auto()
    LARK = auto()
    CHOICE = auto()


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """What was asked for: one text, or for a choice the several texts that it is among."""

    kind: GrammarKind
    texts: tuple[str, ...]
    prefers_end: bool = False  # a text ends as soon as it may

    @property
    def num_bytes(self) -> int:
        """Bytes of all texts together."""
        return sum(len(text.encode()) for text in self.texts)

    def serialized(self) -> str:
        """The grammar in llguidance's own format; raises ValueError for a JSON schema that is no JSON."""
        (text, *_) = self.texts
        match self.kind:
            case GrammarKind.JSON_SCHEMA:
                read_json(text)  # the library would put one that is no JSON between its own and speak of both
                return LLMatcher.grammar_from_json_schema(text)
            case GrammarKind.REGEX:
                return LLMatcher.grammar_from_regex(text)
            case GrammarKind.LARK:
                return LLMatcher.grammar_from_lark(text)
            case GrammarKind.CHOICE:
                return LLMatcher.grammar_from_regex("|".join(map(re.escape, self.texts)))


def read_json(text: str) -> object:
    """What a text says in JSON; raises ValueError where that is nothing."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
