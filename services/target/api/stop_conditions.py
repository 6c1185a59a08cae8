"""Stop conditions: when an answer ends, as a request says it."""

from outrider.v1 import common_pb2
from services.engine.range import COUNT, MAX_COUNT, Range
from services.engine.request import Loop, StopConditions
from services.service.limits import LIMITS, MAX_TIME_LIMIT
from services.service.validation import Violations
from services.target.api.durations import read_duration
from services.target.models.served_model import ServedModel


def read_stops(
    message: common_pb2.StopConditions, model: ServedModel, found: Violations, *, room: int
) -> StopConditions:
    """When the answer ends, where `room` is how many tokens the context has left; adds to `found` what is wrong."""
    strings = found.within("stop.strings", message.strings, LIMITS.max_stop_strings)
    found.check_sizes("stop.strings", strings, LIMITS.max_stop_string_bytes)
    token_ids = found.within("stop.token_ids", message.token_ids, LIMITS.max_stop_token_ids)
    found.check_token_ids("stop.token_ids", token_ids, model.config.vocab_size)
    most = message.max_tokens if message.HasField("max_tokens") else max(room, 0)
    if message.HasField("max_tokens"):
        found.check_number("stop.max_tokens", message.max_tokens, Range(minimum=1, maximum=MAX_COUNT))
    if message.min_tokens < 0:
        found.add("stop.min_tokens", f"is {message.min_tokens}", COUNT)
    elif message.min_tokens > most > 0:
        found.add("stop.min_tokens", f"is {message.min_tokens}", f"at least 0, at most max_tokens, which is {most}")
    eos_token_ids = () if message.ignore_eos else model.eos_token_ids
    return StopConditions(
        # Without a maximum the end of the context is the reason to end, not a number that nobody asked for.
        max_tokens=message.max_tokens if message.HasField("max_tokens") else model.context_length,
        min_tokens=message.min_tokens,
        token_ids=frozenset([*token_ids, *eos_token_ids]),
        strings=tuple(strings),
        include_stop=message.include_stop,
        time_limit=_read_time_limit(message, found),
        loop=_read_loop(message, found),
    )


def _read_time_limit(message: common_pb2.StopConditions, found: Violations) -> float | None:
    if not message.HasField("time_limit"):
        return None
    allowed = Range(minimum=0, maximum=MAX_TIME_LIMIT, excludes_minimum=True)
    return read_duration("stop.time_limit", message.time_limit, allowed, found)


def _read_loop(message: common_pb2.StopConditions, found: Violations) -> Loop | None:
    if not message.HasField("loop"):
        return None
    window, repetitions = message.loop.window, message.loop.repetitions
    found.check_number("stop.loop.repetitions", repetitions, Range(minimum=2, maximum=LIMITS.max_loop_window))
    allowed = Range(minimum=max(repetitions, 2), maximum=LIMITS.max_loop_window)
    if repetitions <= LIMITS.max_loop_window:
        found.check_number("stop.loop.window", window, allowed)
    return Loop(window=window, repetitions=repetitions)
