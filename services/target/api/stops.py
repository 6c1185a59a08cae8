"""Stop conditions: counts, tokens, strings, a time limit, a loop in the text, and the end of the thinking."""

from collections.abc import Set

from google.protobuf.duration_pb2 import Duration

from outrider.v1 import common_pb2
from services.engine.range import COUNT, MAX_COUNT, Range
from services.engine.request import Loop, StopConditions
from services.engine.thinking_budget import ThinkingBudget
from services.service.limits import LIMITS, MAX_TIME_LIMIT
from services.service.validation import Violations
from services.target.api.request_messages import GenerationRequest
from services.target.message.thought import PromptThought, thought_of
from services.target.models.served_model import ServedModel

_MOST_NANOS = 999_999_999
_MAX_THINKING = "stop.max_thinking_tokens"


def read_stops(
    message: common_pb2.StopConditions, model: ServedModel, found: Violations, *, room: int, ends: Set[int]
) -> StopConditions:
    """The conditions that end an answer; errors are added to `found`.

    `room` is the number of tokens that the context has left for it, and `ends` are the ids that end a turn.
    """
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
    return StopConditions(
        # Without a maximum the finish reason must be the context length, not a limit that was not requested.
        max_tokens=message.max_tokens if message.HasField("max_tokens") else model.context_length,
        min_tokens=message.min_tokens,
        token_ids=frozenset([*token_ids, *(() if message.ignore_eos else ends)]),
        strings=tuple(strings),
        include_stop=message.include_stop,
        time_limit=_read_time_limit(message, found) if message.HasField("time_limit") else None,
        loop=_read_loop(message, found) if message.HasField("loop") else None,
    )


def _read_time_limit(message: common_pb2.StopConditions, found: Violations) -> float | None:
    """The seconds after which an answer ends; errors are added to `found`."""
    allowed = Range(minimum=0, maximum=MAX_TIME_LIMIT, excludes_minimum=True)
    return read_duration("stop.time_limit", message.time_limit, allowed, found)


def _read_loop(message: common_pb2.StopConditions, found: Violations) -> Loop:
    """When the text counts as looping; errors are added to `found`."""
    window, repetitions = message.loop.window, message.loop.repetitions
    found.check_number("stop.loop.repetitions", repetitions, Range(minimum=2, maximum=LIMITS.max_loop_window))
    allowed = Range(minimum=max(repetitions, 2), maximum=LIMITS.max_loop_window)
    if repetitions <= LIMITS.max_loop_window:
        found.check_number("stop.loop.window", window, allowed)
    return Loop(window=window, repetitions=repetitions)


def read_duration(field: str, duration: Duration, allowed: Range, found: Violations) -> float:
    """A duration in seconds; what is wrong with it is added to `found`. The range must not allow less than 0."""
    least = -_MOST_NANOS if duration.seconds <= 0 else 0  # both have the same sign
    most = _MOST_NANOS if duration.seconds >= 0 else 0
    if not least <= duration.nanos <= most:
        found.add(f"{field}.nanos", f"is {duration.nanos}", f"0 to {_MOST_NANOS}")
    seconds = duration.seconds + duration.nanos * 1e-9
    found.check_number(field, seconds, allowed)
    return seconds


def read_thinking(
    message: GenerationRequest,
    prompt: tuple[int, ...],
    model: ServedModel,
    found: Violations,
) -> ThinkingBudget | None:
    """The budget of the answer's thinking; None without a limit, or if the prompt has ended the thinking already.

    Errors are added to `found`.
    """
    if not message.stop.HasField("max_thinking_tokens"):
        return None
    if message.stop.max_thinking_tokens < 0:
        found.add(_MAX_THINKING, f"is {message.stop.max_thinking_tokens}", COUNT)
        return None
    if message.prompt.heal:
        found.add(_MAX_THINKING, "is set", "not to be, with prompt.heal")
    if (marks := model.syntax.reasoning) is None:
        problem = "is set, but this model's chat template shows no marks of thoughts that are known"
        found.add(_MAX_THINKING, problem, "not to be set; or a server with --reasoning-parser")
        return None
    end_ids = model.tokenizer.encode(marks.end, add_special_tokens=False)
    if marks.end.encode() not in b"".join(map(model.tokenizer.token_bytes, end_ids)):
        found.add(_MAX_THINKING, f"is set, but the vocabulary cannot spell {marks.end}", "not to be set")
    thought = thought_of(prompt, model.tokenizer, model.syntax)
    if thought is PromptThought.CLOSED:
        return None
    return ThinkingBudget(
        max_tokens=message.stop.max_thinking_tokens,
        is_begun=thought is PromptThought.OPEN,
        start=marks.start.encode(),
        end=marks.end.encode(),
        end_ids=tuple(end_ids),
        tokenizer=model.tokenizer,
        vocab_size=model.config.vocab_size,
    )
