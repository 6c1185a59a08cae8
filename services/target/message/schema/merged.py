"""merged_schema: one schema of all that a schema says, itself, by references and by `allOf`."""

from collections.abc import Iterator
from typing import Any

from services.target.message.schema.references import ANNOTATIONS, REFERENCES, SchemaReferences

_NAMES = ("$id", "$anchor", "$dynamicAnchor", "$defs", "definitions")
_LEFT_OUT = ANNOTATIONS.union(REFERENCES, _NAMES, ("readOnly", "writeOnly", "$schema", "allOf"))
_MOST_DEPTH = 32


def merged_schema(schema: object, references: SchemaReferences) -> dict[str, Any]:
    """Return a schema without references, `allOf` and annotations at its top; its parts are as they were.

    Raises ValueError if two parts say something different with the same word, for a schema that no value has, and for a
    reference to nothing.
    """
    merged: dict[str, Any] = {}
    for part in _parts(schema, references, 0):
        for name, value in part.items():
            if name == "properties" and isinstance(merged.get(name), dict) and isinstance(value, dict):
                both = [field for field in value if merged[name].get(field, value[field]) != value[field]]
                if both:
                    raise ValueError(f"the field {both[0][:64]!r} is in several parts of a schema")
                merged[name] = merged[name] | value
            elif name == "required" and isinstance(merged.get(name), list) and isinstance(value, list):
                merged[name] = merged[name] + value
            elif merged.setdefault(name, value) != value:
                raise ValueError(f"{name[:64]!r} is in several parts of a schema")
    return merged


def _parts(schema: object, references: SchemaReferences, depth: int) -> Iterator[dict[str, Any]]:
    """The schema without its references and `allOf`, and all parts that these lead to."""
    if schema is False:
        raise ValueError("a schema that no value has is not supported here")
    if depth > _MOST_DEPTH:
        raise ValueError("a schema refers to itself, or is nested too deeply")
    if not isinstance(schema, dict):
        return
    yield {name: value for name, value in schema.items() if name not in _LEFT_OUT}
    if name := next((name for name in REFERENCES if name in schema), None):
        if (target := references.target(schema)) is None:
            raise ValueError(f"{name!r} refers to {str(schema[name])[:64]!r}, which is no part of the schema")
        yield from _parts(target, references, depth + 1)
    if isinstance(parts := schema.get("allOf"), list):
        for part in parts:
            yield from _parts(part, references, depth + 1)
