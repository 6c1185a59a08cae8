"""Durations: spans of time between the engine's seconds and messages."""

from google.protobuf.duration_pb2 import Duration


def write_duration(seconds: float) -> Duration:
    """Seconds as a message."""
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
