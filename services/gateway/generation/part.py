"""Part: the base of the models of requests, and of the objects in them."""

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema

_OF_ENTRIES = ("list", "tuple", "set", "frozenset")  # kinds of pydantic schemas


def _fail_fast(schema: object) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in _OF_ENTRIES:
            schema["fail_fast"] = True
        for part in schema.values():
            _fail_fast(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _fail_fast(part)


class Part(BaseModel):
    """A part of a request; unknown fields are refused, unless they are null."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema, changed so that a list fails at its first bad entry instead of listing all."""
        schema = handler(source)
        _fail_fast(schema)
        return schema

    @model_validator(mode="before")
    @classmethod
    def _without_unknown_nulls(cls, body: object) -> object:
        """Remove unknown fields that are null: clients send them for options that they do not use."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None or name in cls.model_fields}
