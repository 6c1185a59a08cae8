"""Trace context: the trace and span that a call belongs to, by W3C's `traceparent`."""

import re

TRACEPARENT = "traceparent"
MAX_TRACEPARENT = 55  # characters
_PATTERN = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


def read_traceparent(text: object) -> str:
    """Return the text if it is a valid trace context, else "": an invalid one is ignored."""
    match = _PATTERN.fullmatch(text) if isinstance(text, str) and len(text) == MAX_TRACEPARENT else None
    return match[0] if match is not None and int(match[1], 16) and int(match[2], 16) else ""


def trace_id(traceparent: str) -> str:
    """Return the trace's id in hexadecimal digits; empty if there is no trace."""
    return traceparent[3:35]
