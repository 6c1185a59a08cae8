"""Durations: reads spans of time from messages."""

from google.protobuf.duration_pb2 import Duration

from services.engine.range import Range
from services.service.validation import Violations

_MOST_NANOS = 999_999_999


def read_duration(field: str, duration: Duration, allowed: Range, found: Violations) -> float:
    """A duration in seconds; what is wrong with it is added to `found`. The range must not allow less than 0."""
    least = -_MOST_NANOS if duration.seconds <= 0 else 0  # both have the same sign
    most = _MOST_NANOS if duration.seconds >= 0 else 0
    if not least <= duration.nanos <= most:
        found.add(f"{field}.nanos", f"is {duration.nanos}", f"0 to {_MOST_NANOS}")
    seconds = duration.seconds + duration.nanos * 1e-9
    found.check_number(field, seconds, allowed)
    return seconds
