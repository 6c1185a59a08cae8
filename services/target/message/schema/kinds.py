"""SchemaKinds: the types of JSON that a schema allows, and the strings among its values."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

from services.target.message.schema.references import Schema, SchemaReferences

_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
_KINDS |= {dict: "object"}
KINDS = frozenset(_KINDS.values())
"""The types of JSON, and "integer"."""

_OF_TEXT = ("pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType")
_MOST_PARTS = 256  # of one schema
_MOST_DEPTH = 32


def kind_of(value: object) -> str:
    """The type of a value of JSON; that of a number without a fraction is "integer"."""
    return _KINDS[type(value)]


@dataclass(frozen=True, slots=True)
class SchemaKinds:
    """The allowed types but "string", and the allowed strings, None for any; "number" comes with "integer"."""

    others: frozenset[str]
    texts: frozenset[str] | None

    @property
    def all(self) -> frozenset[str]:
        """The types with "string" if there is an allowed one."""
        return self.others if self.texts == frozenset() else self.others | {"string"}

    @classmethod
    def of(cls, schema: object, references: SchemaReferences) -> "SchemaKinds":
        """The values that a schema allows, as far as its types, values, unions and references say; otherwise all."""
        found = _Walk(references).kinds(schema, frozenset())
        return ANYTHING if found == _NOTHING else found

    def __or__(self, other: "SchemaKinds") -> "SchemaKinds":
        texts = None if self.texts is None or other.texts is None else self.texts | other.texts
        return SchemaKinds(self.others | other.others, texts)

    def __and__(self, other: "SchemaKinds") -> "SchemaKinds":
        texts = self.texts if other.texts is None else other.texts if self.texts is None else self.texts & other.texts
        return SchemaKinds(self.others & other.others, texts)


_NOTHING = SchemaKinds(frozenset(), frozenset())
_TEXT = SchemaKinds(frozenset(), None)
ANYTHING = SchemaKinds(KINDS - {"string"}, None)


class _Walk:
    """One walk over a schema, which reads a limited number of its parts."""

    def __init__(self, references: SchemaReferences) -> None:
        self._references = references
        self._num_left = _MOST_PARTS

    def kinds(self, schema: object, open_parts: frozenset[int]) -> SchemaKinds:
        """`open_parts` are the targets of references that lead here, by their identity."""
        self._num_left -= 1
        if not isinstance(schema, dict) or self._num_left < 0 or len(open_parts) > _MOST_DEPTH:
            return ANYTHING
        limits = [*self._limits(schema, open_parts)]
        if not limits and any(name in schema for name in _OF_TEXT):
            return _TEXT
        return reduce(SchemaKinds.__and__, limits, ANYTHING)

    def _limits(self, schema: Schema, open_parts: frozenset[int]) -> Iterator[SchemaKinds]:
        """What each of a schema's fields allows."""
        match schema.get("type"):
            case str(kind):
                yield _of_types([kind])
            case list(types):
                yield _of_types(kind for kind in types if isinstance(kind, str))
        if isinstance(values := schema.get("enum"), list):
            yield _of_values(values)
        if "const" in schema:
            yield _of_values([schema["const"]])
        inner = open_parts | {id(schema)}
        for name in ("anyOf", "oneOf"):
            if isinstance(parts := schema.get(name), list):
                yield reduce(SchemaKinds.__or__, (self.kinds(part, inner) for part in parts), _NOTHING)
        if isinstance(parts := schema.get("allOf"), list):
            yield from (self.kinds(part, inner) for part in parts)
        if "$ref" in schema or "$dynamicRef" in schema:
            target = self._references.target(schema)
            yield _NOTHING if id(target) in inner else self.kinds(target, inner)


def _of_types(names: Iterable[str]) -> SchemaKinds:
    kinds = {*names}
    kinds |= {"integer"} if "number" in kinds else set()
    return SchemaKinds(frozenset(kinds - {"string"}), None if "string" in kinds else frozenset())


def _of_values(values: list[object]) -> SchemaKinds:
    others = frozenset(kind_of(value) for value in values if not isinstance(value, str))
    return SchemaKinds(others, frozenset(value for value in values if isinstance(value, str)))
