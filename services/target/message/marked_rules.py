"""MarkedRules: the grammar rules for arguments whose keys are bare and whose strings stand between marks."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from services.target.message.argument_types import quoted
from services.target.message.marked_call_reader import MOST_KEY, is_bare_key
from services.target.message.schema.kinds import ANYTHING, KINDS, SchemaKinds, kind_of
from services.target.message.schema.merged import merged_schema
from services.target.message.schema.references import SchemaReferences
from services.target.message.schema.text_regex import ANY_CHARACTER, ANY_TEXT, count_in, in_slashes, text_regex

_ANY_VALUE, _ANY_STRING = "any_value", "any_string"
_NOTHING, _NO_FIELDS, _NO_ITEMS = '""', '"{" "}"', '"[" "]"'
_ANY_FIELDS = '"{" (any_key ":" %s ("," any_key ":" %s)*)? "}"'
_NO_MARK = r"(?s:(?:[^<]|<[^|])"  # the beginning of a regex of characters among which no mark begins
_SCALARS = ("boolean", "integer", "null", "number")
_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_OBJECTS, _OF_LISTS = ("properties", "required", "additionalProperties"), ("items", "minItems", "maxItems")
_ALTERNATIVES = ("anyOf", "oneOf")
_NOT_FOLLOWED = (
    *("not", "if", "prefixItems", "contains", "uniqueItems", "patternProperties", "propertyNames"),
    *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
)


class StringMark(NamedTuple):
    """The mark around strings: its text, how a grammar writes it, and whether it is a token that no text has."""

    text: str
    written: str
    is_token: bool

    def rules(self, name: str, regex: str) -> Iterator[str]:
        """The rules of a string that matches a regex."""
        if self.is_token:
            yield f"{name}: {self.written} {in_slashes(regex)} {self.written}"
            return
        # with the mark after it: a regex of its own would take the mark as part of the string
        whole = regex.replace(ANY_CHARACTER, _NO_MARK) + re.escape(self.text)
        yield f"{name}: {self.written} {name}_rest"
        yield f"{name}_rest[lazy]: {in_slashes(whole)}"


def free_marked_rules(mark: StringMark) -> list[str]:
    """The rules of any key and of any value."""
    return [
        f"{_ANY_VALUE}: {_ANY_STRING} | any_object | any_list | %json {json.dumps({'type': _SCALARS})}",
        f"any_object: {_ANY_FIELDS % (_ANY_VALUE, _ANY_VALUE)}",
        f'any_list: "[" ({_ANY_VALUE} ("," {_ANY_VALUE})*)? "]"',
        *mark.rules(_ANY_STRING, ANY_TEXT),
        f"any_key: ANY_KEY | {_ANY_STRING}",
        r'ANY_KEY: /[^\s:{}\[\],<"]([^:{}\[\],<"\n]*[^\s:{}\[\],<"])?/',
    ]


class MarkedRules:
    """The rules of one tool's arguments by its schema. Fields come in the order of their names, as chat templates write
    them; if the schema names any, there are no others.
    """

    def __init__(self, rule: str, schema: Mapping[str, Any] | None, mark: StringMark) -> None:
        """The first rule is named `rule`."""
        self._rule = rule
        self._references = SchemaReferences(schema)
        self._mark = mark
        self._named: dict[int, tuple[str, object]] = {}  # the rules of schemas, by the identity of these
        self._shared: dict[str, str] = {}  # the rules of values, by what they match
        self._waiting: list[tuple[str, object]] = []  # rules whose lines are still to be written

    def lines(self) -> Iterator[str]:
        """The lines of all rules; raises ValueError for a schema that they cannot follow."""
        root = {**self._merged(self._references.root), "type": "object"}
        yield from self._alternatives(self._rule, root) or self._object(self._rule, root)
        while self._waiting:
            rule, schema = self._waiting.pop()
            yield from self._value(rule, self._merged(schema))
        yield from (f"{rule}: {value}" for value, rule in self._shared.items())

    def _merged(self, schema: object) -> Mapping[str, Any]:
        whole = merged_schema(schema, self._references)
        if name := next((name for name in _NOT_FOLLOWED if name in whole), None):
            raise ValueError(f"{name!r} is not supported in a schema of arguments")
        if unknown := [name for name in _types(whole) if not (isinstance(name, str) and name in KINDS)]:
            raise ValueError(f"{json.dumps(unknown[0])[:64]} is no type of JSON")
        return whole

    def _name_of(self, schema: object) -> str:
        """The name of the rule of a value."""
        if schema is True or schema == {}:
            return _ANY_VALUE
        if id(schema) not in self._named:
            self._named[id(schema)] = (f"{self._rule}_{len(self._named)}", schema)
            self._waiting.append(self._named[id(schema)])
        return self._named[id(schema)][0]

    def _value(self, rule: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """A value, by the values, the alternatives or the types that its schema names."""
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        values = [schema["const"]] if "const" in schema else values
        if values:
            types = {*_types(schema)}
            types |= {"integer"} if "number" in types else set()
            allowed = [value for value in values if not types or kind_of(value) in types]
            yield f"{rule}: {' | '.join(map(self._literal, allowed)) or _none(schema)}"
        elif alternatives := self._alternatives(rule, schema):
            yield from alternatives
        else:
            kinds = SchemaKinds.of(schema, self._references)
            yield from self._typed(rule, schema, kinds if kinds != ANYTHING else _implied(schema))

    def _alternatives(self, rule: str, schema: Mapping[str, Any]) -> list[str]:
        """A value of one of several schemas, with what is said beside them; nothing for other schemas."""
        name = next((name for name in _ALTERNATIVES if isinstance(schema.get(name), list) and schema[name]), None)
        if name is None:
            return []
        beside = {key: value for key, value in schema.items() if key != name}
        parts = [{"allOf": [part, beside]} if beside else part for part in schema[name]]
        return [f"{rule}: {' | '.join(map(self._name_of, parts))}"]

    def _typed(self, rule: str, schema: Mapping[str, Any], kinds: SchemaKinds) -> Iterator[str]:
        if kinds == ANYTHING:
            yield f"{rule}: {_ANY_VALUE}"
            return
        parts: list[str] = []
        if kinds.texts is None:
            regex = text_regex(schema)
            parts.append(_ANY_STRING if regex is None else f"{rule}_text")
            yield from self._mark.rules(parts[-1], regex) if regex is not None else ()
        if "object" in kinds.others:
            parts.append(f"{rule}_object")
            yield from self._object(parts[-1], schema)
        if "array" in kinds.others:
            parts.append(self._list(schema))
        if scalars := sorted(kinds.others.intersection(_SCALARS)):
            limits = {name: schema[name] for name in _OF_NUMBERS if name in schema}
            value = f"%json {json.dumps({'type': scalars, **limits})}"
            parts.append(self._shared.setdefault(value, f"{self._rule}_scalar_{len(self._shared)}"))
        yield f"{rule}: {' | '.join(parts) or _none(schema)}"

    def _object(self, rule: str, schema: Mapping[str, Any]) -> Iterator[str]:
        """An object; `rest_N` is its fields from the N-th on after another one."""
        further, fields = schema.get("additionalProperties", True), _in_order(_fields(schema))
        if not fields:
            value = "" if further is False else self._name_of(further)
            yield f"{rule}: {_ANY_FIELDS % (value, value) if value else _NO_FIELDS}"
            return
        needed = _required(schema)
        are_needed = [name in needed for name, _ in fields]
        texts = [f"{self._key(name)} {self._name_of(part)}" for name, part in fields]
        num_firsts = are_needed.index(True) + 1 if any(are_needed) else len(fields)  # fields that may come first
        firsts = [f"{text} {rule}_rest_{number + 1}" for number, text in enumerate(texts[:num_firsts])]
        yield f'{rule}: "{{" ({" | ".join(firsts)}){"" if any(are_needed) else "?"} "}}"'
        rests = [f'("," {text}){"" if is_needed else "?"}' for text, is_needed in zip(texts, are_needed, strict=True)]
        yield from (f"{rule}_rest_{n}: {rests[n]} {rule}_rest_{n + 1}" for n in range(1, num_firsts))
        yield f"{rule}_rest_{num_firsts}: {' '.join(rests[num_firsts:]) or _NOTHING}"

    def _list(self, schema: Mapping[str, Any]) -> str:
        least, most = count_in(schema, "minItems") or 0, count_in(schema, "maxItems")
        items = schema.get("items", True)
        most = 0 if items is False else most
        if most is not None and least > most:
            raise ValueError(f"'minItems' is {least}, and at most {most} are allowed")
        if most == 0:
            return _NO_ITEMS
        value = self._name_of(items)
        further = f'("," {value}){{{max(least - 1, 0)},{"" if most is None else most - 1}}}' if most != 1 else ""
        return f'"[" ({value} {further}){"" if least else "?"} "]"'

    def _literal(self, value: object) -> str:
        """One value."""
        match value:
            case str():
                return f"{self._mark.written} {quoted(value) if value else ''} {self._mark.written}"
            case list():
                return f'"[" {_listed(map(self._literal, value))} "]"'
            case dict():
                fields = (f"{self._key(name)} {self._literal(part)}" for name, part in _in_order(value))
                return f'"{{" {_listed(fields)} "}}"'
            case float() if value.is_integer():
                return f"({quoted(json.dumps(value))} | {quoted(json.dumps(int(value)))})"
        return quoted(json.dumps(value))

    def _key(self, name: str) -> str:
        """A key and the colon after it; between marks where it would not be read as it is."""
        if len(name) > MOST_KEY:
            raise ValueError(f"the name of a field has {len(name)} characters; it may have at most {MOST_KEY}")
        return quoted(f"{name}:") if is_bare_key(name) else f'{self._literal(name)} ":"'


def _none(schema: Mapping[str, Any]) -> str:
    raise ValueError(f"no value fits the schema {json.dumps(schema)[:128]}")


def _types(schema: Mapping[str, Any]) -> list[object]:
    """The types that a schema names."""
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def _implied(schema: Mapping[str, Any]) -> SchemaKinds:
    """The types of values that a schema speaks of, if it names none."""
    words = {"object": _OF_OBJECTS, "array": _OF_LISTS, "number": _OF_NUMBERS}
    kinds = frozenset(kind for kind, names in words.items() if any(name in schema for name in names))
    return SchemaKinds(kinds, frozenset()) if kinds else ANYTHING


def _fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas of the fields that an object may have, and of those that it must have.

    Raises ValueError for a field that it must have and cannot.
    """
    properties, further, names = schema.get("properties"), schema.get("additionalProperties"), _required(schema)
    properties = properties if isinstance(properties, dict) else {}
    fields = properties | {name: True if further is None else further for name in names if name not in properties}
    if name := next((name for name in names if fields[name] is False), None):
        raise ValueError(f"the field {name[:64]!r} is required and not allowed")
    return {name: part for name, part in fields.items() if part is not False}


def _required(schema: Mapping[str, Any]) -> list[str]:
    """The names of the fields that an object must have."""
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _in_order(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The fields in the order of jinja's `dictsort`."""
    return sorted(fields.items(), key=lambda field: field[0].lower())


def _listed(parts: Iterable[str]) -> str:
    return ' "," '.join(parts)
