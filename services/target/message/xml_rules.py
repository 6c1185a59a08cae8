"""XmlRules: the grammar rules for arguments that are bare texts between XML marks."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from services.target.message.argument_types import kinds_of, properties_of
from services.target.message.xml_form import XmlForm

_ANY_KEY = r"KEY: /[^<>\n]+/"
_ANY = "(?s:.*)"
_SLASH = re.compile(r"(?<!\\)/")
_DEFINITIONS = ("$defs", "definitions")


def xml_rules(rule: str, schema: Mapping[str, Any] | None, form: XmlForm, settings: Mapping[str, Any]) -> Iterator[str]:
    """The rules of a call's arguments, the first of them named `rule`; any arguments without a schema.

    `settings` are those of the JSON of values that are no strings. Arguments come in the order of the schema.
    """
    properties = {} if schema is None else properties_of(schema)
    if schema is None:
        yield f"{rule}: ({_quoted(form.before_key)} KEY {_quoted(form.after_key)} free_value)*"
        return
    needed = schema.get("required")
    needed = needed if isinstance(needed, list) else []
    parts: list[str] = []
    for number, (name, value) in enumerate(properties.items()):
        part = f"{rule}_{number}"
        parts.append(part if name in needed else f"{part}?")
        before = _quoted(f"{form.before_key}{name}{form.after_key}")
        regex = _regex(value) if isinstance(value, dict) and "string" in kinds_of(value, schema) else None
        if regex is None:
            yield f"{part}: {before} {_value(value, schema, form, settings)}"
        else:  # with the mark after it: a regex of its own would take the mark as part of the value
            yield f"{part}: {before} {part}_value"
            yield f"{part}_value[lazy]: /{_in_slashes(regex + re.escape(form.after_value))}/"
    yield f"{rule}: {' '.join(parts)}" if parts else f'{rule}: ""'


def free_rules(form: XmlForm) -> list[str]:
    """The rules of any name and of any value."""
    return [_ANY_KEY, f"free_value[lazy]: TEXT {_quoted(form.after_value)}"]


def _value(value: object, root: Mapping[str, Any], form: XmlForm, settings: Mapping[str, Any]) -> str:
    """A value and the mark after it."""
    end = _quoted(form.after_value)
    if isinstance(value, dict) and "string" not in kinds_of(value, root):
        definitions = {name: root[name] for name in _DEFINITIONS if name in root}
        return f"%json {json.dumps({'x-guidance': settings, **definitions, **value})} {end}"
    match value:
        case {"enum": list(texts)}:
            return f"({' | '.join(_quoted(_bare(text)) for text in texts)}) {end}"
        case {"const": text}:
            return f"{_quoted(_bare(text))} {end}"
    return "free_value"


def _regex(schema: Mapping[str, Any]) -> str | None:
    """The regex of a text that has a pattern or a length; None for others."""
    match schema:
        case {"enum": _} | {"const": _}:
            return None
        case {"pattern": str(pattern)}:
            starts = pattern.startswith("^")
            ends = pattern.endswith("$") and not pattern.endswith("\\$")
            middle = pattern[int(starts) : len(pattern) - int(ends)]
            return f"{'' if starts else _ANY}({middle}){'' if ends else _ANY}"
        case {"minLength": int()} | {"maxLength": int()}:
            return f"(?s:.{{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}})"
    return None


def _in_slashes(regex: str) -> str:
    return _SLASH.sub(r"\/", regex.replace("\\\n", "\n").replace("\n", "\\n"))


def _bare(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
