"""Trace context: which request of whose a call belongs to, as W3C's `traceparent` says it."""

import re

TRACEPARENT = "traceparent"
MAX_TRACEPARENT = 55  # characters
_PATTERN = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


def read_traceparent(text: object) -> str:
    """The text itself if it is a trace context, else an empty one: whoever sends another is not to be believed."""
    match = _PATTERN.fullmatch(text) if isinstance(text, str) and len(text) == MAX_TRACEPARENT else None
    return match[0] if match is not None and int(match[1], 16) and int(match[2], 16) else ""


def trace_id(traceparent: str) -> str:
    """The trace's own id, in hexadecimal digits; empty where there is no trace."""
    return traceparent[3:35]
