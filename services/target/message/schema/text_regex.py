"""text_regex: the regex of the texts that a schema allows, and how a grammar writes it."""

import re
from collections.abc import Mapping
from typing import Any

ANY_CHARACTER = "(?s:."  # the beginning of a regex of any characters
ANY_TEXT = f"{ANY_CHARACTER}*)"
_ESCAPED_OR_SPECIAL = re.compile(r"\\.|/|\n", re.DOTALL)
_SPECIAL = {"/": r"\/", "\n": r"\n", "\\\n": r"\n"}


def text_regex(schema: Mapping[str, Any]) -> str | None:
    """Return the regex of a text that has a pattern or a length; None for others."""
    if "enum" in schema or "const" in schema:
        return None
    if isinstance(pattern := schema.get("pattern"), str):
        return _searched(pattern)
    least, most = (count_in(schema, name) for name in ("minLength", "maxLength"))
    return None if least is most is None else f"{ANY_CHARACTER}{{{least or 0},{'' if most is None else most}}})"


def count_in(schema: Mapping[str, Any], name: str) -> int | None:
    """Return a limit of a length; None if it is absent, or no whole number from 0."""
    value = schema.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def in_slashes(regex: str) -> str:
    """Return a regex as Lark writes it; what is escaped stays so."""
    return f"/{_ESCAPED_OR_SPECIAL.sub(lambda found: _SPECIAL.get(found[0], found[0]), regex)}/"


def _searched(pattern: str) -> str | None:
    """The regex of a whole text in which a pattern is found; None if its alternatives may have anchors of their own."""
    if "|" in pattern and re.search(r"[\^$]", pattern):
        return None
    backslashes = len(pattern) - 1 - len(pattern[:-1].rstrip("\\"))
    starts, ends = pattern.startswith("^"), pattern.endswith("$") and backslashes % 2 == 0
    middle = pattern[int(starts) : len(pattern) - int(ends)]
    return f"{'' if starts else ANY_TEXT}({middle}){'' if ends else ANY_TEXT}"
