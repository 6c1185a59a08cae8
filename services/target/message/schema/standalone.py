"""StandaloneSchema: a part of a JSON schema as a schema of its own, with all that it refers to."""

from typing import Any

from services.target.message.schema.references import NO_SCHEMAS, Schema, SchemaReferences

_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})  # fields that hold schemas by name
_LEFT_OUT = frozenset({"$defs", "definitions", "$id", "$anchor", "$dynamicAnchor"})


def standalone_schema(schema: Schema, references: SchemaReferences) -> dict[str, Any]:
    """Return a copy of a part of the schema of `references`, whose own references are to definitions in the copy."""
    return _Copy(references).whole(schema)


class _Copy:
    def __init__(self, references: SchemaReferences) -> None:
        self._references = references
        self._numbers: dict[int, int] = {}  # by the identity of a reference's target
        self._targets: list[object] = []

    def whole(self, schema: Schema) -> dict[str, Any]:
        copied = self._fields(schema)
        definitions = {str(number): self._part(target) for number, target in enumerate(self._targets)}
        return {**copied, "$defs": definitions} if definitions else copied

    def _part(self, part: object) -> object:
        if isinstance(part, list):
            return [*map(self._part, part)]
        return self._fields(part) if isinstance(part, dict) else part

    def _fields(self, schema: Schema) -> dict[str, Any]:
        fields = {name: self._field(name, value) for name, value in schema.items() if name not in _LEFT_OUT}
        if "$ref" in schema and (target := self._references.target(schema)) is not None:
            number = self._numbers.setdefault(id(target), len(self._targets))
            if number == len(self._targets):
                self._targets.append(target)
            fields["$ref"] = f"#/$defs/{number}"
        return fields

    def _field(self, name: str, value: object) -> object:
        if name in _BY_NAME and isinstance(value, dict):
            return {each: self._part(part) for each, part in value.items()}
        return value if name in NO_SCHEMAS else self._part(value)
