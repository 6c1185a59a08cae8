"""ArgumentTypes: the JSON of arguments that a model writes as bare text."""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from services.target.message.call_text import DECODER
from services.target.message.schema.kinds import ANYTHING, SchemaKinds, kind_of
from services.target.message.schema.references import Schema, SchemaReferences

_CONSTANTS = {"true": "true", "false": "false", "none": "null", "null": "null"}  # some models write Python's
_NULLS = ("null", "None")
_OF_OTHERS = "[{-0123456789"  # the first characters of numbers, lists and objects in JSON


class _Json(NamedTuple):
    """A value, and its text, in which numbers stay as they are written."""

    value: object
    text: str


class ArgumentTypes:
    """The tools that an answer may call, and the types of their arguments by their schemas."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        """`schemas` are those of the tools' arguments, by the names of the tools."""
        self._schemas = schemas
        self._references: dict[str, SchemaReferences] = {}  # of the tools that have been called
        self._found: dict[tuple[str, str], SchemaKinds] = {}  # of the arguments that have been read

    @property
    def tools(self) -> Set[str]:
        """The names of the tools; without any, nothing in the answer is a call."""
        return self._schemas.keys()

    def value(self, tool: str, name: str, text: str) -> str:
        """The JSON of an argument's bare text."""
        return _written(text, self._kinds(tool, name))

    def unmarked(self, tool: str, name: str | None, text: str) -> str:
        """The JSON of a text that stands where strings have marks: of an argument, or of a value within one (None)."""
        kinds = ANYTHING if name is None else self._kinds(tool, name)
        return _written(_constant(text) if kinds == ANYTHING else text, kinds)

    def is_string(self, tool: str, name: str, beginning: str) -> bool:
        """Whether an argument is a string, however its bare text goes on after this beginning."""
        kinds, bare = self._kinds(tool, name), beginning.strip()
        if kinds.texts is not None:
            return False
        if kinds == ANYTHING:
            return bare != "" and bare[0] not in _OF_OTHERS and not _may_become(bare, _CONSTANTS)
        is_null = "null" in kinds.others and _may_become(bare, _NULLS)
        return not is_null and (not kinds.others & {"array", "object"} or bare[:1] not in ("", "[", "{"))

    def _kinds(self, tool: str, name: str) -> SchemaKinds:
        found = self._found.get((tool, name))
        if found is None:
            found = self._found[tool, name] = self._kinds_of(tool, name)
        return found

    def _kinds_of(self, tool: str, name: str) -> SchemaKinds:
        references = self._references.setdefault(tool, SchemaReferences(self._schemas.get(tool, {})))
        further = references.resolved().get("additionalProperties")
        return SchemaKinds.of(references.properties().get(name, further), references)


def _written(text: str, kinds: SchemaKinds) -> str:
    """An argument in JSON: of the types that its schema allows, a text is the last choice unless it is a string's.

    Where a string and a number are both allowed, it is a string; a whole list or object is none.
    """
    if kinds == ANYTHING:
        found = next(_in_json(text.strip()), None)
        return quoted(text) if found is None or isinstance(found.value, str) else found.text
    if kinds.texts is not None:
        return quoted(text) if text in kinds.texts else _other(text, kinds)
    bare = text.strip()
    if bare in _NULLS and "null" in kinds.others:
        return "null"
    whole = _read(bare) if bare.startswith(("[", "{")) else ()
    return next((one.text for one in whole if kind_of(one.value) in kinds.others), quoted(text))


def _other(text: str, kinds: SchemaKinds) -> str:
    """An argument that is no allowed string."""
    read = [*_read(_constant(text))]
    best = next((one for one in read if _fits(one.value, kinds)), None)
    if best is None and not kinds.texts:  # of another type, which the caller can see
        best = next((one for one in read if not isinstance(one.value, str)), None)
    return quoted(text) if best is None else best.text


def _may_become(bare: str, constants: Iterable[str]) -> bool:
    return any(each.startswith(bare) for each in constants)


def _fits(value: object, kinds: SchemaKinds) -> bool:
    if isinstance(value, str):
        return kinds.texts is None or value in kinds.texts
    return kind_of(value) in kinds.others


def _read(bare: str) -> Iterator[_Json]:
    """The values that a text may stand for: in JSON, in quotes, or a list or object as Python writes it."""
    for one in _in_json(bare):
        yield one
        if isinstance(one.value, str):
            yield from _in_json(_constant(one.value))
        return
    if bare.startswith(("[", "{", "(")):
        yield from _in_python(bare)


def _constant(text: str) -> str:
    """The text without white space around it, in JSON if it is one of Python's constants."""
    bare = text.strip()
    return _CONSTANTS.get(bare.lower(), bare)


def _in_json(bare: str) -> Iterator[_Json]:
    try:
        yield _Json(DECODER.decode(bare), bare)
    except (ValueError, RecursionError):
        return


def _in_python(bare: str) -> Iterator[_Json]:
    try:
        text = json.dumps(ast.literal_eval(bare), ensure_ascii=False, allow_nan=False)
        yield _Json(json.loads(text), text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return


def quoted(text: str) -> str:
    """A string in JSON."""
    return json.dumps(text, ensure_ascii=False)
