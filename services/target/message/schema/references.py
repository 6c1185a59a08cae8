"""SchemaReferences: finds the parts of a JSON schema that its references name, however they are spelled."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

Schema = Mapping[str, Any]
REFERENCES = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
NO_SCHEMAS = frozenset({"const", "enum", "default", "examples"})  # their values may look like schemas
ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_MOST_REFERENCES = 8  # from one to the next


class _Index(NamedTuple):
    """The parts with names of their own, and the part of a URI that each object is in, by its identity."""

    named: dict[tuple[str, str], object]
    bases: dict[int, str]


class SchemaReferences:
    """The references in a schema: JSON pointers, anchors, and URIs of parts with `$id` (JSON Schema 2020-12, 8.2)."""

    def __init__(self, root: object) -> None:
        self.root = root

    def target(self, schema: Schema) -> object:
        """Return the part that a schema refers to; None if it refers to nothing, or to nothing in this schema."""
        reference = next((schema[name] for name in REFERENCES if name in schema), None)
        if not isinstance(reference, str):
            return None
        try:
            return self._find(reference, self._index.bases.get(id(schema), ""))
        except ValueError:  # it is no URI
            return None

    def resolved(self) -> Schema:
        """Return the schema itself, or the part that it refers to; an empty one if that is no object."""
        found = self.root
        for _ in range(_MOST_REFERENCES):
            if not (isinstance(found, dict) and "$ref" in found):
                break
            found = self.target(found)
        return found if isinstance(found, dict) else {}

    def properties(self) -> dict[str, Any]:
        """Return the schemas of its properties; none if it does not have any."""
        properties = self.resolved().get("properties")
        return properties if isinstance(properties, dict) else {}

    def followed(self, schema: object) -> object:
        """Return the part that a schema refers to, if it says nothing else about its values."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, dict):
                break
            match {name: value for name, value in schema.items() if name not in ANNOTATIONS}:
                case {"$ref": _, **others} if not others and (target := self.target(schema)) is not None:
                    schema = target
                case {"allOf": [part], **others} if not others:
                    schema = part
                case _:
                    break
        return schema

    def _find(self, reference: str, base: str) -> object:
        url, fragment = urldefrag(reference)
        url = urldefrag(urljoin(base, url)).url if url else base
        if not fragment or fragment.startswith("/"):
            return _pointed(self._index.named.get((url, "")), unquote(fragment))
        return self._index.named.get((url, unquote(fragment)))

    @cached_property
    def _index(self) -> _Index:
        index = _Index({("", ""): self.root}, {})
        waiting: list[tuple[object, str]] = [(self.root, "")]
        while waiting:
            place, base = waiting.pop()
            if isinstance(place, dict):
                base = _add(place, base, index)
            waiting += ((part, base) for part in _parts(place))
        return index


def _parts(place: object) -> Iterator[object]:
    if isinstance(place, dict):
        yield from (part for name, part in place.items() if name not in NO_SCHEMAS)
    elif isinstance(place, list):
        yield from place


def _add(schema: Schema, base: str, index: _Index) -> str:
    """Add a schema's own names to the index; returns the URI that its parts are in."""
    match schema.get("$id"):
        case str(name) if name.startswith("#"):  # as older drafts write anchors
            index.named[base, name[1:]] = schema
        case str(name):
            base = _joined(base, name)
            index.named[base, ""] = schema
    for name in _ANCHORS:
        if isinstance(anchor := schema.get(name), str):
            index.named[base, anchor] = schema
    index.bases[id(schema)] = base
    return base


def _joined(base: str, name: str) -> str:
    try:
        return urldefrag(urljoin(base, name)).url
    except ValueError:  # it is no URI
        return base


def _pointed(place: object, pointer: str) -> object:
    """Return the part at a JSON pointer (RFC 6901)."""
    for step in pointer.split("/")[1:]:
        if isinstance(place, dict):
            place = place.get(step.replace("~1", "/").replace("~0", "~"))
        elif isinstance(place, list) and step.isascii() and step.isdigit() and len(step) < len(str(1 << 32)):
            place = place[int(step)] if int(step) < len(place) else None
        else:
            return None
    return place
