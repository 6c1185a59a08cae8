"""Grammar bounds: what may take long at once is counted, however it is written."""

import json

import pytest

from services.engine.grammar.bounds import check_bounds
from services.engine.grammar.source import GrammarKind, GrammarSource
from tests.harness.grammar.grammars import SOURCES

TOO_MUCH = {
    "optional": (GrammarKind.REGEX, "a?" * 1001),
    "empty branches": (GrammarKind.REGEX, "(a|)" * 501 + "(|a)" * 500),
    "spaced branches": (GrammarKind.REGEX, "(?x)" + "(a | )" * 1001),
    "in a pattern": (GrammarKind.JSON_SCHEMA, json.dumps({"pattern": "a*" * 1001})),
    "in a name": (GrammarKind.JSON_SCHEMA, json.dumps({"patternProperties": {"a*" * 1001: {}}})),
    "deep inside": (GrammarKind.JSON_SCHEMA, json.dumps({"allOf": [{"not": [{"description": {"x": "a*" * 1001}}]}]})),
    "intersections": (GrammarKind.LARK, 'start: A\nA: "&" & /&/ & "a" & "b"'),
    "complements": (GrammarKind.LARK, 'start: A\nA: <"> ~"a" ~"b" ~"c" <">'),
}
ALLOWED = {
    "words": (GrammarKind.REGEX, "|".join(f"word{i}" for i in range(5000))),
    "comments": (GrammarKind.JSON_SCHEMA, json.dumps({"description": "what? " * 5000, "type": "string"})),
    "operators": (GrammarKind.LARK, 'start: "&&" | "a" /[&~]+/ | "~" | "\\"&" // & & & &'),
    "a choice": (GrammarKind.CHOICE, "?" * 5000),
}


@pytest.mark.parametrize(("kind", "text"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_grammars_beyond_the_bounds_are_refused(kind: GrammarKind, text: str):
    with pytest.raises(ValueError, match="at most"):
        check_bounds(GrammarSource(kind, (text,)))


@pytest.mark.parametrize(("kind", "text"), ALLOWED.values(), ids=ALLOWED)
def test_grammars_that_only_look_too_large_are_accepted(kind: GrammarKind, text: str):
    check_bounds(GrammarSource(kind, (text,)))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_ordinary_grammars_are_within_bounds(source: GrammarSource):
    check_bounds(source)
