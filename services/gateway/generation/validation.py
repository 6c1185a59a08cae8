"""Validation: parses a body of JSON as a request, or raises a Problem that names the field."""

from collections.abc import Sequence as Seq
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from services.gateway.generation.problem import Kind, Problem

_MOST_REPORTED = 8  # problems of one request
_MOST_LISTED = 1024  # a list of errors takes far more memory than a hostile body that causes them
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
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    found: dict[str, str] = {}
    for fault in faults[:_MOST_REPORTED]:
        found.setdefault(_path(document, fault["loc"], fault["type"]), fault["msg"].removeprefix(_PREFIX))
    found = {path: what for path, what in found.items() if not any(_is_within(other, path) for other in found)}
    message = "; ".join(f"{path}: {what}" if path else what for path, what in found.items())
    raise Problem(Kind.INVALID, message, next(iter(found)) or None)


def _is_within(path: str, other: str) -> bool:
    """Return whether a path is below another: for a union of types, pydantic reports an error for each of them."""
    return path.startswith((f"{other}.", f"{other}["))


def _path(document: object, location: Seq[int | str], fault: str) -> str:
    """Return the path of a fault in the document, without the types of unions that pydantic puts in it."""
    path = ""
    for step in location:
        if isinstance(document, dict) and step in document:
            document, path = document[step], f"{path}.{step}" if path else str(step)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document, path = document[step], f"{path}[{step}]"
        elif fault in ("missing", "value_error") and step == location[-1]:  # the second is that of a default
            path = f"{path}.{step}" if path else str(step)
    return path
