"""MarkedRules: the grammar rules for arguments whose keys are bare and whose strings stand between marks."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from services.target.message.schema.kinds import ANYTHING, SchemaKinds
from services.target.message.schema.references import SchemaReferences
from services.target.message.schema.standalone import standalone_schema
from services.target.message.schema.text_regex import ANY_TEXT, count_in, in_slashes, text_regex

_ANY_VALUE = "any_value"
_SCALARS = ("boolean", "integer", "null", "number")
_NO_FIELDS, _NO_ITEMS = '"{" "}"', '"[" "]"'
_ANY_FIELDS = '"{" (ANY_KEY ":" %s ("," ANY_KEY ":" %s)*)? "}"'


class StringMark(NamedTuple):
    """The mark around strings: its text, how a grammar writes it, and whether it is a token that no text has."""

    text: str
    written: str
    is_token: bool

    def rules(self, name: str, regex: str) -> Iterator[str]:
        """The rules of a string that matches a regex."""
        if self.is_token:
            yield f"{name}: {self.written} {in_slashes(regex)} {self.written}"
        else:  # with the mark after it: a regex of its own would take the mark as part of the string
            yield f"{name}: {self.written} {name}_rest"
            yield f"{name}_rest[lazy]: {in_slashes(regex + re.escape(self.text))}"


def free_marked_rules(mark: StringMark, settings: Mapping[str, Any]) -> list[str]:
    """The rules of any key and of any value; `settings` are those of the JSON of values without marks."""
    scalar = json.dumps({"x-guidance": settings, "type": [*_SCALARS]})
    return [
        f"{_ANY_VALUE}: any_string | any_object | any_list | %json {scalar}",
        f"any_object: {_ANY_FIELDS % (_ANY_VALUE, _ANY_VALUE)}",
        f'any_list: "[" ({_ANY_VALUE} ("," {_ANY_VALUE})*)? "]"',
        *mark.rules("any_string", ANY_TEXT),
        r'ANY_KEY: /[^\s:{}\[\],<"]+/',
    ]


class MarkedRules:
    """The rules of one tool's arguments by its schema. Fields come in the order of their names, as chat templates write
    them; if the schema names any, there are no others.
    """

    def __init__(
        self, rule: str, schema: Mapping[str, Any] | None, mark: StringMark, settings: Mapping[str, Any]
    ) -> None:
        """The first rule is named `rule`; `settings` are as for `free_marked_rules`."""
        self._rule = rule
        self._references = SchemaReferences(schema)
        self._mark = mark
        self._settings = settings
        self._names: dict[int, str] = {}  # of the rules of schemas, by their identity
        self._waiting: list[tuple[str, Mapping[str, Any]]] = []  # rules whose lines are still to be written

    def lines(self) -> Iterator[str]:
        """The lines of all rules."""
        yield from self._object(self._rule, self._references.resolved())
        while self._waiting:
            yield from self._value(*self._waiting.pop())

    def _name_of(self, schema: object) -> str:
        """The name of the rule of a value."""
        schema = self._references.followed(schema)
        if not isinstance(schema, dict) or SchemaKinds.of(schema, self._references) == ANYTHING:
            return _ANY_VALUE
        if id(schema) not in self._names:
            self._names[id(schema)] = f"{self._rule}_{len(self._names)}"
            self._waiting.append((self._names[id(schema)], schema))
        return self._names[id(schema)]

    def _value(self, rule: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """A value, by the values, the alternatives or the types that its schema names."""
        match schema:
            case {"enum": [_, *_] as values}:
                yield f"{rule}: {' | '.join(map(self._literal, values))}"
            case {"const": value}:
                yield f"{rule}: {self._literal(value)}"
            case {"anyOf": [_, *_] as parts} | {"oneOf": [_, *_] as parts}:
                yield f"{rule}: {' | '.join(map(self._name_of, parts))}"
            case _:
                yield from self._typed(rule, schema)

    def _typed(self, rule: str, schema: Mapping[str, Any]) -> Iterator[str]:
        kinds = SchemaKinds.of(schema, self._references)
        parts = [self._literal(text) for text in sorted(kinds.texts or ())]
        if kinds.texts is None:
            parts.append(f"{rule}_text")
            yield from self._mark.rules(parts[-1], text_regex(schema) or ANY_TEXT)
        if "object" in kinds.others:
            parts.append(f"{rule}_object")
            yield from self._object(parts[-1], schema)
        if "array" in kinds.others:
            parts.append(self._list(schema))
        if scalars := sorted(kinds.others.intersection(_SCALARS)):
            whole = {"x-guidance": self._settings, **standalone_schema(schema, self._references), "type": scalars}
            parts.append(f"%json {json.dumps(whole)}")
        yield f"{rule}: {' | '.join(parts)}"

    def _object(self, rule: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """An object; `first_N` are its fields from the N-th on if none comes before them, `next_N` if one does."""
        properties, further = schema.get("properties"), schema.get("additionalProperties", True)
        if not isinstance(properties, dict) or not properties:
            value = self._name_of(further)
            yield f"{rule}: {_NO_FIELDS if further is False else _ANY_FIELDS % (value, value)}"
            return
        needed = schema.get("required")
        needed = needed if isinstance(needed, list) else []
        yield f'{rule}: "{{" {rule}_first_0 "}}"'
        for number, (name, part) in enumerate(_in_order(properties)):
            field, following = f"{_key(name)} {self._name_of(part)}", number + 1
            skipped = "" if name in needed else f" | {rule}_first_{following}"
            yield f"{rule}_first_{number}: {field} {rule}_next_{following}{skipped}"
            yield f'{rule}_next_{number}: ("," {field}){"?" if skipped else ""} {rule}_next_{following}'
        yield from (f'{rule}_{kind}_{len(properties)}: ""' for kind in ("first", "next"))

    def _list(self, schema: Mapping[str, Any]) -> str:
        least, most = count_in(schema, "minItems") or 0, count_in(schema, "maxItems")
        if most == 0:
            return _NO_ITEMS
        value = self._name_of(schema.get("items")) if "prefixItems" not in schema else _ANY_VALUE
        further = f'("," {value}){{{max(least - 1, 0)},{"" if most is None else most - 1}}}' if most != 1 else ""
        return f'"[" ({value} {further}){"" if least else "?"} "]"'

    def _literal(self, value: object) -> str:
        """One value."""
        match value:
            case str():
                return f"{self._mark.written} {_quoted(value) if value else ''} {self._mark.written}"
            case list():
                return f'"[" {_listed(map(self._literal, value))} "]"'
            case dict():
                fields = (f"{_key(name)} {self._literal(part)}" for name, part in _in_order(value))
                return f'"{{" {_listed(fields)} "}}"'
        return _quoted(json.dumps(value))


def _in_order(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The fields in the order of jinja's `dictsort`."""
    return sorted(fields.items(), key=lambda field: field[0].lower())


def _listed(parts: Iterable[str]) -> str:
    return ' "," '.join(parts)


def _key(name: str) -> str:
    return _quoted(f"{name}:")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
