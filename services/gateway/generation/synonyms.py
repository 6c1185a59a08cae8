"""Synonyms: fields that other servers name differently; a request may use either name."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Self

from pydantic import BaseModel, model_validator

from services.gateway.generation.handling import SAME_AS
from services.gateway.generation.part import Part
from services.gateway.generation.problem import Kind, Problem


class Synonyms(Part):
    """A part of a request in which `same_as` marks fields as synonyms of others."""

    @model_validator(mode="before")
    @classmethod
    def _without_null_synonyms(cls, body: object) -> object:
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None or name not in _synonyms(cls)}

    @model_validator(mode="after")
    def _has_each_field_once(self) -> Self:
        given: dict[str, str] = {}
        for name in sorted(self.model_fields_set):
            field = _synonyms(type(self)).get(name, name)
            if name == field and getattr(self, name) is None:
                continue
            if (other := given.setdefault(field, name)) != name:
                message = f"{other}: is given beside {name}; both name the same field, and only one is allowed"
                raise Problem(Kind.INVALID, message, other)
        return self

    def value_of(self, name: str) -> Any:  # noqa: ANN401 - of any type
        """Return the value of a field, whichever of its names the request uses."""
        return getattr(self, self.name_in_use(name))

    def name_in_use(self, name: str) -> str:
        """Return the name that the request uses for a field."""
        synonyms = (synonym for synonym, field in _synonyms(type(self)).items() if field == name)
        return next((synonym for synonym in synonyms if synonym in self.model_fields_set), name)

    def path_in_use(self, path: str) -> str:
        """Return the path of a field or of a part of it, with the name that the request uses for the field."""
        name = path.partition(".")[0].partition("[")[0]
        known = name in type(self).model_fields
        return self.name_in_use(name) + path[len(name) :] if known else path


@cache
def _synonyms(kind: type[BaseModel]) -> Mapping[str, str]:
    """Return the field of each synonym of a model."""
    extras = {name: field.json_schema_extra for name, field in kind.model_fields.items()}
    return {name: str(extra[SAME_AS]) for name, extra in extras.items() if isinstance(extra, dict) and SAME_AS in extra}
