"""Grammar bounds: limits on grammars, so that no mask in the middle of a text can suddenly take long."""

import re
from collections.abc import Iterator

from services.engine.grammar.source import GrammarKind, GrammarSource, read_json

# The library's limits do not interrupt a single step of a regex. Its time grows with the square of the number of
# consecutive parts that may be empty: 10 ms for 1000.
_MOST_OPTIONAL = 1000
_OPTIONAL = re.compile(r"[*+?{]|\(\)|\(\||\|\||\|\)|\A\||\|\Z")
_SPACED = re.compile(r"\(\?[a-zA-Z]*x")  # such a regex may hide an empty branch in white space
# A single step of an intersection or complement goes through every combination of its parts.
_MOST_COMBINED = 2
_LARK_TEXTS = re.compile(r'"(?:\\.|[^"\\\x00-\x1f\x7f])*"|/(?:\\.|[^/\\])+/|<[^<>\s]+>|(?:#|//)[^\n]*')
_COMMENTS = {"description", "title", "$comment"}


def check_bounds(source: GrammarSource) -> None:
    """Raise ValueError if a grammar has too many constructs that take long.

    The regexes of a Lark grammar are limited by their compiled size instead, since its terminals may contain others.
    """
    (text, *_) = source.texts
    match source.kind:
        case GrammarKind.REGEX:
            _check_optional(_num_optional(text))
        case GrammarKind.JSON_SCHEMA:
            _check_optional(sum(map(_num_optional, _strings(read_json(text)))))
        case GrammarKind.LARK:
            if (count := len(re.findall("[&~]", _LARK_TEXTS.sub("", text)))) > _MOST_COMBINED:
                raise ValueError(f"it has {count} of & and ~; at most {_MOST_COMBINED} are allowed")


def _check_optional(count: int) -> None:
    if count > _MOST_OPTIONAL:
        raise ValueError(
            f"its regexes have {count} parts that repeat or may be empty; at most {_MOST_OPTIONAL} are allowed"
        )


def _num_optional(regex: str) -> int:
    """Return an upper bound of the number of parts of a regex that may be empty."""
    return len(_OPTIONAL.findall(regex)) + (regex.count("|") if _SPACED.search(regex) else 0)


def _strings(value: object) -> Iterator[str]:
    """Yield all strings of a schema except its comments: any of them may be a regex."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as items:
                waiting.extend(items)
            case dict() as fields:
                yield from fields
                waiting.extend(field for name, field in fields.items() if not _is_comment(name, field))


def _is_comment(name: object, value: object) -> bool:
    return name in _COMMENTS and isinstance(value, str)
