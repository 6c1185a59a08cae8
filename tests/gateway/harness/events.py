"""Server-sent events as a page would read them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SentEvent:
    """One event; the id is what a page sends back as Last-Event-ID."""

    data: Any
    name: str | None
    id: str | None


def read_events(lines: Iterable[str]) -> Iterator[SentEvent]:
    """The events that lines make, without comments, and the one that only says that there are no more."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            fields["comment"] = line
        elif line:
            key, _, value = line.partition(": ")
            fields[key] = value
        elif fields:
            if fields.get("data", "[DONE]") != "[DONE]":
                yield SentEvent(json.loads(fields["data"]), fields.get("event"), fields.get("id"))
            fields = {}
