"""Requests: reads the engine's Request from a message, and collects every error in it."""

import secrets
from collections.abc import Set
from dataclasses import replace
from typing import Any
from uuid import uuid4

from google.protobuf.message import Message

from outrider.v1 import common_pb2, generation_pb2
from services.draft_protocol.conversions import read_cache
from services.engine.forced_tokens import ForcedTokens
from services.engine.grammar.grammar import Grammar
from services.engine.guidance import Guidance
from services.engine.range import COUNT, MAX_COUNT, Range
from services.engine.request import (
    CachePolicy,
    OutputOptions,
    Request,
    Share,
    SpeculationMode,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingParams
from services.engine.text.healing import Healing, plan_healing
from services.engine.thinking_budget import ThinkingBudget
from services.service.access.caller import Caller
from services.service.errors import FingerprintMismatchError
from services.service.limits import LIMITS, MAX_SALT_BYTES
from services.service.validation import Violations
from services.target.api.best_of import check_best_of, ranking_output
from services.target.api.chat import binds_answer
from services.target.api.grammar import read_grammar, read_tool_grammar
from services.target.api.infill import read_infill_ends
from services.target.api.output_options import read_output
from services.target.api.request_messages import CachedRequest, GenerationRequest, NamedRequest
from services.target.api.sampling import check_feedback, read_lists
from services.target.api.stops import read_loop, read_thinking, read_time_limit
from services.target.models.served_model import ServedModel
from services.target.sessions.session import Session

_PRIORITIES = Range(minimum=-10, maximum=10)
_MODES = {
    common_pb2.SPECULATION_MODE_UNSPECIFIED: SpeculationMode.AUTO,
    common_pb2.SPECULATION_MODE_NEVER: SpeculationMode.NEVER,
    common_pb2.SPECULATION_MODE_AUTO: SpeculationMode.AUTO,
    common_pb2.SPECULATION_MODE_ALWAYS: SpeculationMode.ALWAYS,
}


def is_ranked(message: GenerationRequest) -> bool:
    """Whether the best of several answers are chosen."""
    return message.best_of > 1


def num_generated(message: GenerationRequest) -> int:
    """The number of answers to generate for a request that may not have been checked yet; at least 1."""
    return max(1, message.num_samples, message.best_of)


def read_request(
    message: GenerationRequest,
    prompt: tuple[int, ...],
    grammar: Grammar | None,
    model: ServedModel,
    found: Violations,
    *,
    caller: Caller,
    deadline: float | None,
    session: Session | None = None,
    guidance: Guidance | None = None,
) -> Request:
    """The engine's request for a caller's message, whose errors so far are in `found`.

    `deadline` is in seconds on the monotonic clock. Raises FingerprintMismatchError, or InvalidRequestError for errors.
    """
    received = _read_continuation(message, model, found)
    _check_num_samples(message, model, found)
    has_gap = message.prompt.HasField("infill")
    ends = {*model.eos_token_ids, *(read_infill_ends(message, model, found) if has_gap else ())}
    stops = _read_stops(message.stop, model, found, room=model.context_length - len(prompt), ends=ends)
    request = Request(
        request_id=read_request_id(message, found),
        prompt=prompt,
        healing=_read_healing(message, prompt, model, found),
        received=received,
        sampling=_read_sampling(message, model, found),
        stops=stops,
        grammar=grammar,
        thinking=_read_thinking(message, prompt, model, found),
        forced=_force(model, prompt, stops),
        guidance=guidance,
        output=_read_output(message, model, found),
        speculation=_read_speculation(message, found),
        cache=_read_cache(message, session, found),
        share=read_share(message, caller, found),
        lora=model.lora,
        num_samples=num_generated(message),
        deadline=deadline,
    )
    found.raise_if_any()
    return _prepared(request)


async def read_request_grammar(
    message: GenerationRequest, prompt: tuple[int, ...], model: ServedModel, found: Violations, *, caller: str
) -> Grammar | None:
    """The compiled grammar of the answer, if there is one; each caller has at most one compiled at a time."""
    num_samples = min(num_generated(message), model.max_samples)
    if message.prompt.WhichOneof("input") == "chat" and binds_answer(message.prompt.chat):
        return await read_tool_grammar(message, prompt, model, found, caller=caller, num_samples=num_samples)
    if not message.HasField("grammar"):
        return None
    if message.prompt.heal:
        found.add("prompt.heal", "is true", "false, or not set, with a grammar")
        found.add("grammar", "is set", "not to be, with prompt.heal")
    if message.grammar.prefer_end and message.stop.min_tokens > 0:
        found.add("grammar.prefer_end", "is true", "false, or not set, with stop.min_tokens")
    return await read_grammar(message, prompt, model, found, caller=caller, num_samples=num_samples)


def read_request_id(message: NamedRequest, found: Violations) -> str:
    """The request's id, or a new one if it has none."""
    if not message.HasField("request_id"):
        return uuid4().hex
    check_name("request_id", message.request_id, found)
    return message.request_id


def check_name(field: str, name: str, found: Violations) -> None:
    """Check a name that a caller gave; errors are added to `found`."""
    size = len(name.encode())
    if not 0 < size <= LIMITS.max_request_id_bytes or not name.isprintable():
        allowed = f"1 to {LIMITS.max_request_id_bytes} bytes of printable characters"
        found.add(field, f"has {size} bytes", allowed)


def read_cache_policy(message: CachedRequest, found: Violations) -> CachePolicy:
    """The cache policy of a request; errors are added to `found`."""
    if not message.HasField("cache"):
        return CachePolicy()
    check_salt("cache.salt", message.cache.salt, found)
    return read_cache(message.cache)


def check_salt(field: str, salt: str, found: Violations) -> None:
    """Check a salt that a caller gave; errors are added to `found`."""
    if (size := len(salt.encode())) > MAX_SALT_BYTES:
        found.add(field, f"has {size} bytes", f"at most {MAX_SALT_BYTES} bytes")


def read_share(message: NamedRequest, caller: Caller, found: Violations) -> Share:
    """A request's share for the scheduler: its caller, weight and priority."""
    found.check_number("priority", message.priority, _PRIORITIES)
    return Share(caller=caller.name, weight=caller.limits.weight, priority=message.priority)


def _prepared(request: Request) -> Request:
    if request.grammar is not None:
        request.grammar.prepare(request.received, stop_ids=request.stops.token_ids)
    return request


def _read_sampling(message: GenerationRequest, model: ServedModel, found: Violations) -> SamplingParams:
    asked = message.sampling
    numbers: dict[str, Any] = {**model.defaults, **_read_numbers(asked, found)}
    lists = read_lists(asked, model, found) if _has_lists(asked) else {}
    rules = {name: ids for name, ids in model.token_rules.items() if not lists.get(name)}
    seed = asked.seed if asked.HasField("seed") else secrets.randbits(64)
    sampling = SamplingParams(seed=seed, **numbers, **{**lists, **rules})
    if sampling.mirostat_mode or sampling.adaptive_target >= 0:
        check_feedback(message, sampling, found)
    return sampling


def _read_numbers(message: Message, found: Violations) -> dict[str, float]:
    """The sampling numbers that the request sets, by name."""
    numbers: dict[str, float] = {}
    for number in SAMPLING_NUMBERS:
        if message.HasField(number.name):
            numbers[number.name] = getattr(message, number.name)
            found.check_number(f"sampling.{number.name}", numbers[number.name], number.allowed)
    return numbers


def _has_lists(message: common_pb2.SamplingParameters) -> bool:
    return message.dry_multiplier > 0 or any(field.is_repeated for field, _ in message.ListFields())


def _read_stops(
    message: common_pb2.StopConditions, model: ServedModel, found: Violations, *, room: int, ends: Set[int]
) -> StopConditions:
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
        time_limit=read_time_limit(message, found) if message.HasField("time_limit") else None,
        loop=read_loop(message, found) if message.HasField("loop") else None,
    )


def _read_thinking(
    message: GenerationRequest, prompt: tuple[int, ...], model: ServedModel, found: Violations
) -> ThinkingBudget | None:
    return read_thinking(message, prompt, model, found) if message.stop.HasField("max_thinking_tokens") else None


def _force(model: ServedModel, prompt: tuple[int, ...], stops: StopConditions) -> ForcedTokens | None:
    if not (model.forced_ids.second or model.forced_ids.last):
        return None
    return model.forced_ids.in_answer(
        num_prompt=len(prompt),
        min_tokens=stops.min_tokens,
        max_tokens=stops.max_tokens,
        vocab_size=model.config.vocab_size,
    )


def _read_continuation(message: GenerationRequest, model: ServedModel, found: Violations) -> tuple[int, ...]:
    if not message.HasField("continue_from"):
        return ()
    served, received = model.fingerprint.digest, message.continue_from.fingerprint
    if not received:
        found.add("continue_from.fingerprint", "is empty", "the one in `started` of the generation to continue")
    elif received != served:
        raise FingerprintMismatchError(received=received, served=served)
    if not message.sampling.HasField("seed"):
        found.add("sampling.seed", "is not set", "the one in `started` of the generation to continue")
    field = "continue_from.token_ids"
    ids = tuple(found.within(field, message.continue_from.token_ids, model.context_length))
    found.check_token_ids(field, ids, model.config.vocab_size)
    return ids


def _read_cache(message: GenerationRequest, session: Session | None, found: Violations) -> CachePolicy:
    policy = read_cache_policy(message, found)
    # With the session's salt the request finds the session's blocks.
    return policy if session is None else replace(policy, salt=session.salt)


def _read_output(message: GenerationRequest, model: ServedModel, found: Violations) -> OutputOptions:
    output = OutputOptions()
    if message.HasField("output"):
        is_whole = isinstance(message, generation_pb2.GenerateRequest)
        output = read_output(message.output, model, found, is_whole=is_whole)
    return ranking_output(output) if is_ranked(message) else output


def _check_num_samples(message: GenerationRequest, model: ServedModel, found: Violations) -> None:
    if message.HasField("best_of"):
        check_best_of(message, model, found)
    if not message.HasField("num_samples"):
        return
    if message.num_samples > 1 and message.HasField("continue_from"):
        allowed = "1 with continue_from: an interrupted sample is continued as a request of its own"
        found.add("num_samples", f"is {message.num_samples}", allowed)
    found.check_number("num_samples", message.num_samples, Range(minimum=1, maximum=model.max_samples))


def _read_healing(
    message: GenerationRequest, prompt: tuple[int, ...], model: ServedModel, found: Violations
) -> Healing | None:
    if message.prompt.heal and message.output.message_deltas:
        found.add("output.message_deltas", "is true", "false, or not set, with prompt.heal")
    if not message.prompt.heal or not prompt:
        return None
    return plan_healing(prompt, model.tokenizer, vocab_size=model.config.vocab_size)


def _read_speculation(request: GenerationRequest, found: Violations) -> SpeculationPolicy:
    if not request.HasField("speculation"):
        return SpeculationPolicy()
    message = request.speculation
    mode = _MODES.get(message.mode)
    if mode is None:
        found.add("speculation.mode", f"is {message.mode}", ", ".join(common_pb2.SpeculationMode.keys()))
    if message.lookup and mode is SpeculationMode.NEVER:
        found.add("speculation.lookup", "is true", "false, or not set, with SPECULATION_MODE_NEVER")
    return SpeculationPolicy(
        mode=mode or SpeculationMode.AUTO,
        num_predictions=_read_num_predictions(message, mode, found),
        lookup=message.lookup or not message.HasField("lookup"),
    )


def _read_num_predictions(
    message: common_pb2.SpeculationPolicy, mode: SpeculationMode | None, found: Violations
) -> int | None:
    if not message.HasField("num_predictions"):
        return None
    allowed = Range(minimum=1, maximum=LIMITS.max_predictions)
    found.check_number("speculation.num_predictions", message.num_predictions, allowed)
    if mode is not SpeculationMode.ALWAYS:
        found.add("speculation.num_predictions", "is set", "only with SPECULATION_MODE_ALWAYS")
    return message.num_predictions
