"""Validation: a body of JSON becomes a request, or a problem that names the field."""

from collections.abc import Sequence as Seq
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from services.gateway.generation.problem import Kind, Problem

_MOST_TOLD = 8  # problems of one request
_MOST_LISTED = 1024  # a list of them takes far more memory than a body that is made to have many
_PREFIX = "Value error, "  # of what our own validators say

Request = TypeVar("Request", bound=BaseModel)


def parse(kind: type[Request], body: bytes) -> Request:
    """The request in a body; raises Problem."""
    try:
        document = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(Kind.INVALID, f"the body is no JSON: {error}") from None
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        if error.error_count() > _MOST_LISTED:
            raise Problem(Kind.INVALID, f"the body has {error.error_count()} faults") from None
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    told: dict[str, str] = {}
    for fault in faults[:_MOST_TOLD]:
        told.setdefault(_path(document, fault["loc"], fault["type"]), fault["msg"].removeprefix(_PREFIX))
    told = {path: what for path, what in told.items() if not any(_is_within(other, path) for other in told)}
    message = "; ".join(f"{path}: {what}" if path else what for path, what in told.items())
    raise Problem(Kind.INVALID, message, next(iter(told)) or None)


def _is_within(path: str, other: str) -> bool:
    """Whether a path leads further than another, which is then no news: the value might have been of several types."""
    return path.startswith((f"{other}.", f"{other}["))


def _path(document: object, location: Seq[int | str], fault: str) -> str:
    """Where a fault is in the document: pydantic also names the types that a value might have been of."""
    path = ""
    for step in location:
        if isinstance(document, dict) and step in document:
            document, path = document[step], f"{path}.{step}" if path else str(step)
        elif isinstance(document, list) and isinstance(step, int) and step < len(document):
            document, path = document[step], f"{path}[{step}]"
        elif fault in ("missing", "value_error") and step == location[-1]:  # the second is of a default
            path = f"{path}.{step}" if path else str(step)
    return path
