"""MessageSource: the field of an API's request that a message of the RPC's request was made from."""

import re
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

_MESSAGE = re.compile(r"prompt\.chat\.messages\[(\d+)\](?:\.tool_calls\[(\d+)\](?:\.(\w+))?)?")


@dataclass(frozen=True, slots=True)
class MessageSource:
    """The paths of a message and of its tool calls in the API's request."""

    name: str
    calls: list[str] = field(default_factory=list)


def source_name(path: str, sources: Seq[MessageSource]) -> str | None:
    """Return the API's name of a field in a message; None for a path that is not in a message."""
    match = _MESSAGE.match(path)
    if match is None:
        return None
    source = sources[int(match[1])]
    if match[2] is None:
        return source.name
    call = source.calls[int(match[2])]
    return f"{call}.{match[3]}" if match[3] else call
