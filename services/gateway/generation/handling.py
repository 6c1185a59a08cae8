"""Handling: types and defaults of fields that are passed over, refused, or another name of a field.

The marks are in the OpenAPI document, from which the table of all fields in the docs is written.
"""

import json
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

HANDLING = "x-handling"
SAME_AS = "x-same-as"
REFUSED: dict[str, Any] = {HANDLING: "refused"}

Value = TypeVar("Value")

PassedOver = Annotated[Value | None, Field(json_schema_extra={HANDLING: "passed over"})]
"""The type of a field that has no effect."""


def _refuse(value: object) -> None:
    if value:
        raise ValueError("is not supported; leave it out")


Refused = Annotated[Any, BeforeValidator(_refuse), Field(json_schema_extra=REFUSED)]
"""The type of a field that may only be null, false, 0 or empty."""


def refused_unless(neutral: float) -> tuple[Any, ...]:
    """Return the annotations of a field that may only be null or have its neutral value."""
    shown = json.dumps(neutral)

    def check(value: object) -> None:
        if value is not None and (isinstance(value, bool) != isinstance(neutral, bool) or value != neutral):
            raise ValueError(f"is not supported; leave it out, or set it to {shown}")

    return BeforeValidator(check), Field(json_schema_extra=REFUSED, description=f"Only `{shown}`.")


def same_as(name: str) -> Any:  # noqa: ANN401 - a default of any type
    """Return the default of a field that is another name of the field `name`."""
    return Field(None, description=f"Another name of `{name}`.", json_schema_extra={SAME_AS: name})


def _none_for_minus_one(value: object) -> object:
    return None if value == -1 else value


OrMinusOne = Annotated[Value | None, BeforeValidator(_none_for_minus_one)]
"""The type of a field where -1 means the same as null."""
