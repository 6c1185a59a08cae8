"""MessageSource: where a message of the RPC's request comes from in an API whose messages are others."""

import re
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

_MESSAGE = re.compile(r"prompt\.chat\.messages\[(\d+)\](?:\.tool_calls\[(\d+)\](?:\.(\w+))?)?")


@dataclass(frozen=True, slots=True)
class MessageSource:
    """The paths of a message, and of what its calls are made of, in the API's request."""

    name: str
    calls: list[str] = field(default_factory=list)


def source_name(path: str, sources: Seq[MessageSource], arguments: str) -> str | None:
    """What the API calls a field of a message, whose calls have `arguments`; None for what is in no message."""
    match = _MESSAGE.match(path)
    if match is None:
        return None
    source = sources[int(match[1])]
    if match[2] is None:
        return source.name
    call = source.calls[int(match[2])]
    return f"{call}.{arguments if match[3] == 'arguments' else match[3]}" if match[3] else call
