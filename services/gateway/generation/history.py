"""History: the earlier messages of a conversation, in which unknown fields are passed over."""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from services.gateway.generation.part import Part


class HistoryPart(Part):
    """A part of an earlier message, which another program or server may have written: unknown fields have no effect."""

    model_config = ConfigDict(extra="allow", frozen=True)


def passed_over(value: object) -> Iterator[str]:
    """Yield the name of each field that is passed over in a request."""
    if isinstance(value, HistoryPart):
        yield from (name for name, field in (value.model_extra or {}).items() if field is not None)
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from passed_over(getattr(value, name))
    elif isinstance(value, list) and value and isinstance(value[0], BaseModel):  # else ids or texts, perhaps many
        for entry in value:
            yield from passed_over(entry)
