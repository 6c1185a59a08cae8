"""XmlRules: the grammar rules for arguments that are bare texts between XML marks."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from services.target.message.argument_types import quoted
from services.target.message.schema.kinds import SchemaKinds
from services.target.message.schema.references import SchemaReferences
from services.target.message.schema.standalone import standalone_schema
from services.target.message.schema.text_regex import in_slashes, text_regex
from services.target.message.xml_form import XmlForm

_ANY_KEY = r"KEY: /[^<>\n]+/"


def xml_rules(rule: str, schema: Mapping[str, Any] | None, form: XmlForm, settings: Mapping[str, Any]) -> Iterator[str]:
    """The rules of a call's arguments, the first of them named `rule`; any arguments without a schema.

    `settings` are those of the JSON of values that are no strings. Arguments come in the order of the schema.
    """
    references = SchemaReferences(schema)
    root, properties = references.resolved(), references.properties()
    if schema is None or not (properties or root.get("additionalProperties") is False):
        yield f"{rule}: ({quoted(form.before_key)} KEY {quoted(form.after_key)} free_value)*"
        return
    needed = root.get("required")
    needed = needed if isinstance(needed, list) else []
    parts: list[str] = []
    for number, (name, value) in enumerate((name, references.followed(part)) for name, part in properties.items()):
        part = f"{rule}_{number}"
        parts.append(part if name in needed else f"{part}?")
        before = quoted(f"{form.before_key}{name}{form.after_key}")
        kinds = SchemaKinds.of(value, references)
        regex = text_regex(value) if isinstance(value, dict) and "string" in kinds.all else None
        if regex is None:
            written = _value(value, kinds, references, settings)
            yield f"{part}: {before} {'free_value' if written is None else f'({written}) {quoted(form.after_value)}'}"
        else:  # with the mark after it: a regex of its own would take the mark as part of the value
            yield f"{part}: {before} {part}_value"
            yield f"{part}_value[lazy]: {in_slashes(regex + re.escape(form.after_value))}"
    yield f"{rule}: {' '.join(parts)}" if parts else f'{rule}: ""'


def free_rules(form: XmlForm) -> list[str]:
    """The rules of any name and of any value."""
    return [_ANY_KEY, f"free_value[lazy]: TEXT {quoted(form.after_value)}"]


def _value(value: object, kinds: SchemaKinds, references: SchemaReferences, settings: Mapping[str, Any]) -> str | None:
    """The rule of a value; None for one that may be any text."""
    match value:
        case {"enum": [_, *_] as texts} if "string" in kinds.all:
            return " | ".join(quoted(_bare(text)) for text in texts)
        case {"const": text} if "string" in kinds.all:
            return quoted(_bare(text))
    if not isinstance(value, dict) or kinds.texts is None:
        return None
    schema = json.dumps({"x-guidance": settings, **standalone_schema(value, references)})
    return " | ".join([*map(quoted, sorted(kinds.texts)), *([f"%json {schema}"] if kinds.others else [])])


def _bare(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
