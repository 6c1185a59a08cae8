"""Validation: parses a body of JSON as a request, or raises a Problem that names the field."""

from collections.abc import Collection
from collections.abc import Sequence as Seq
from difflib import get_close_matches
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from services.gateway.generation.problem import Kind, Problem

_MOST_REPORTED = 8  # problems of one request
_MOST_LISTED = 1024  # a list of errors takes far more memory than a hostile body that causes them
_BAD_KIND = "union_tag_invalid"  # pydantic's name of an unknown `type`
_PREFIX = "Value error, "  # pydantic's prefix of our own validators' messages

Request = TypeVar("Request", bound=BaseModel)


def parse(kind: type[Request], body: bytes) -> Request:
    """Return the request in a body; raises Problem if it is not a valid one."""
    try:
        document = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(Kind.INVALID, f"the body is not JSON: {error}") from None
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        if error.error_count() > _MOST_LISTED:
            raise Problem(Kind.INVALID, f"the body has {error.error_count()} faults") from None
        faults = error.errors(include_url=False, include_input=False)
    found: dict[str, str] = {}
    for fault in faults[:_MOST_REPORTED]:
        path = _path(document, fault["loc"], fault["type"])
        found.setdefault(f"{path}.type" if fault["type"] == _BAD_KIND else path, _what(fault, _names(kind)))
    found = {path: what for path, what in found.items() if not any(_is_within(other, path) for other in found)}
    message = "; ".join(f"{path}: {what}" if path else what for path, what in found.items())
    raise Problem(Kind.INVALID, message, next(iter(found)) or None)


def _names(kind: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in kind.model_fields.items()}


def _what(fault: ErrorDetails, fields: Collection[str]) -> str:
    """Return what is wrong; `fields` are those of the whole request."""
    match fault:
        case {"type": str(kind), "ctx": context} if kind == _BAD_KIND:
            return f"is {context['tag']!r}; allowed: {context['expected_tags']}"
        case {"type": "model_attributes_type" | "model_type"}:
            return "Input should be an object"
        case {"type": "too_short", "ctx": {"min_length": 1}}:
            return "must not be empty"
        case {"type": "extra_forbidden", "loc": (str(name),)}:
            return fault["msg"] + "".join(f"; did you mean {each}?" for each in get_close_matches(name, fields, 1))
    return fault["msg"].removeprefix(_PREFIX)


def _is_within(path: str, other: str) -> bool:
    """Return whether a path is below another: for a union of types, pydantic reports an error for each of them."""
    return path.startswith((f"{other}.", f"{other}["))


def _path(document: object, location: Seq[int | str], fault: str) -> str:
    """Return the path of a fault in the document, without the types of unions that pydantic puts in it."""
    path, last = "", len(location) - 1
    for index, step in enumerate(location):
        if isinstance(document, dict) and step in document:
            is_key = not str(step).isidentifier() or location[index + 1 :] == ("[key]",)
            document, path = document[step], f'{path}["{step}"]' if is_key and path else _member(path, step)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document, path = document[step], f"{path}[{step}]"
        elif fault in ("missing", "value_error") and index == last:  # the second is that of a default
            path = _member(path, step)
    return path


def _member(path: str, name: int | str) -> str:
    return f"{path}.{name}" if path else str(name)
