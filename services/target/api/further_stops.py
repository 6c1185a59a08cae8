"""Stop conditions that few requests have: a time limit, and a loop in the text."""

from outrider.v1 import common_pb2
from services.engine.range import Range
from services.engine.request import Loop
from services.service.limits import LIMITS, MAX_TIME_LIMIT
from services.service.validation import Violations
from services.target.api.durations import read_duration


def read_time_limit(message: common_pb2.StopConditions, found: Violations) -> float | None:
    """The seconds after which an answer ends; errors are added to `found`."""
    allowed = Range(minimum=0, maximum=MAX_TIME_LIMIT, excludes_minimum=True)
    return read_duration("stop.time_limit", message.time_limit, allowed, found)


def read_loop(message: common_pb2.StopConditions, found: Violations) -> Loop:
    """When the text counts as looping; errors are added to `found`."""
    window, repetitions = message.loop.window, message.loop.repetitions
    found.check_number("stop.loop.repetitions", repetitions, Range(minimum=2, maximum=LIMITS.max_loop_window))
    allowed = Range(minimum=max(repetitions, 2), maximum=LIMITS.max_loop_window)
    if repetitions <= LIMITS.max_loop_window:
        found.check_number("stop.loop.window", window, allowed)
    return Loop(window=window, repetitions=repetitions)
