"""Grammars: the fields with the grammar of an answer; a request may use one of them."""

import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from services.gateway.generation.handling import PassedOver, Refused, same_as
from services.gateway.generation.part import Part
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.synonyms import Synonyms

GrammarKind = Literal["json_schema", "regex", "lark", "choice"]
KINDS: Mapping[GrammarKind, str] = {
    "json_schema": "grammar.json_schema",
    "regex": "grammar.regex",
    "lark": "grammar.lark",
    "choice": "grammar.choice.texts",
}
"""The client's options of the kinds of grammars, and their paths in the RPC's request."""
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}

_GBNF_RULE = re.compile(r"^[ \t]*[\w-]+[ \t]*::=", re.MULTILINE)

Schema = str | Mapping[str, Any]


class Grammar(NamedTuple):
    """A grammar, and the paths of the field that gives it and of its text."""

    field: str
    kind: GrammarKind
    text: Any
    path: str


class StructuredOutputs(Part):
    """A grammar as vLLM's requests have it: one of its kinds."""

    json_: Schema | None = Field(None, alias="json")
    regex: str | None = None
    choice: Seq[str] | None = None
    grammar: str | None = Field(None, description="In llguidance's dialect of Lark.")
    json_object: bool | None = None
    structural_tag: Refused = None
    disable_any_whitespace: Refused = None
    disable_additional_properties: Refused = None
    whitespace_pattern: Refused = None

    def grammars(self, field: str) -> list[Grammar]:
        """Return the grammars that are given; `field` is the path of this object."""
        kinds: dict[str, tuple[GrammarKind, Any]] = {
            "json": ("json_schema", self.json_),
            "regex": ("regex", self.regex),
            "choice": ("choice", self.choice),
            "grammar": ("lark", self.grammar),
            "json_object": ("json_schema", ANY_OBJECT if self.json_object else None),
        }
        named = ((f"{field}.{name}", kind, text) for name, (kind, text) in kinds.items())
        return [Grammar(name, kind, text, name) for name, kind, text in named if text is not None]


class GrammarFields(Synonyms):
    """A request whose answer may follow a grammar."""

    json_schema: Schema | None = None
    regex: str | None = None
    lark: str | None = None
    choice: Seq[str] | None = None
    guided_json: Schema | None = same_as("json_schema")
    guided_regex: str | None = same_as("regex")
    guided_choice: Seq[str] | None = same_as("choice")
    guided_grammar: str | None = same_as("lark")
    guided_decoding_backend: PassedOver[str] = None
    structured_outputs: StructuredOutputs | None = None

    @model_validator(mode="after")
    def _has_one_grammar(self) -> Self:
        given = self.grammars()
        if len(given) > 1:
            message = f"{given[1].field}: is given beside {given[0].field}; only one grammar is allowed"
            raise Problem(Kind.INVALID, message, given[1].field)
        if given and given[0].kind == "lark" and _GBNF_RULE.search(given[0].text):
            message = f"{given[0].path}: is GBNF (EBNF), which is not read; allowed: llguidance's dialect of Lark"
            raise Problem(Kind.INVALID, message, given[0].path)
        return self

    def grammars(self) -> list[Grammar]:
        """Return the grammars that the request gives."""
        named = ((self.name_in_use(kind), kind, self.value_of(kind)) for kind in KINDS)
        found = [Grammar(name, kind, text, name) for name, kind, text in named if text is not None]
        return found + (self.structured_outputs.grammars("structured_outputs") if self.structured_outputs else [])

    def grammar_names(self) -> dict[str, str]:
        """Return the API's names of the given grammar's fields in the RPC's request."""
        given = next(iter(self.grammars()), None)
        if given is None:
            return {}
        return {"grammar": given.field, f"grammar.{given.kind}": given.path, KINDS[given.kind]: given.path}
