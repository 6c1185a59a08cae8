"""ArgumentTypes: the JSON of arguments that a model writes as bare text between XML marks."""

import json
from collections.abc import Iterable, Mapping, Set
from typing import Any

Schema = Mapping[str, Any]
_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
_KINDS |= {dict: "object"}
_MOST_REFERENCES = 8  # from one to the next
_MOST_PARTS = 256  # of one schema
_CONSTANTS = {"true": "true", "false": "false", "none": "null", "null": "null"}  # some models write Python's


def object_of(schema: Schema) -> Schema:
    """The schema of an object, which references may name."""
    found: object = schema
    for _ in range(_MOST_REFERENCES):
        if not (isinstance(found, dict) and isinstance(reference := found.get("$ref"), str)):
            break
        found = _at(schema, reference)
    return found if isinstance(found, dict) else {}


def properties_of(schema: Schema) -> dict[str, Any]:
    """The schemas of an object's properties; none if the schema does not have any."""
    properties = object_of(schema).get("properties")
    return properties if isinstance(properties, dict) else {}


def kinds_of(schema: object, root: Schema) -> frozenset[str]:
    """The types of JSON that a schema allows, as far as its own types, values and unions say; otherwise all."""
    kinds: set[str] = set()
    waiting, references = [schema], set[str]()
    for _ in range(_MOST_PARTS):
        if not waiting:
            return frozenset(kinds) or _ALL
        match waiting.pop():
            case {"enum": list(values)}:
                kinds.update(_KINDS[type(value)] for value in values)
            case {"const": value}:
                kinds.add(_KINDS[type(value)])
            case {"type": str(kind)}:
                kinds.add(kind)
            case {"type": list(types)}:
                kinds.update(kind for kind in types if isinstance(kind, str))
            case {"anyOf": list(parts)} | {"oneOf": list(parts)}:
                waiting += parts
            case {"$ref": str(reference)}:
                waiting += [] if reference in references else [_at(root, reference)]
                references.add(reference)
            case _:
                break
    return _ALL


class ArgumentTypes:
    """The tools that an answer may call, and the types of their arguments by their schemas."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        """`schemas` are those of the tools' arguments, by the names of the tools."""
        self._schemas = schemas

    @property
    def tools(self) -> Set[str]:
        """The names of the tools; without any, nothing in the answer is a call."""
        return self._schemas.keys()

    def arguments(self, tool: str, pairs: Iterable[tuple[str, str]]) -> str:
        """The JSON object of the names and the bare texts of a call's arguments."""
        fields = {name: self._value(tool, name, text) for name, text in pairs}
        return "{" + ", ".join(f"{_quoted(name)}: {value}" for name, value in fields.items()) + "}"

    def _value(self, tool: str, name: str, text: str) -> str:
        """An argument in JSON: numbers stay as they are written."""
        schema = self._schemas.get(tool, {})
        kinds = kinds_of(properties_of(schema).get(name), schema)
        bare = text.strip()
        if "string" in kinds and kinds != _ALL:
            return "null" if bare == "null" and "null" in kinds else _quoted(text)
        bare = _CONSTANTS.get(bare.lower(), bare) if kinds != _ALL else bare
        try:
            value = json.loads(bare, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return _quoted(text)
        return _quoted(text) if isinstance(value, str) else bare


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _at(root: Schema, reference: str) -> object:
    place: object = root
    for step in reference.split("/")[1:]:  # after "#"
        place = place.get(step) if isinstance(place, dict) else None
    return place
