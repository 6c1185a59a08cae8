"""Requests: reads the engine's Request from a message, and collects every error in it."""

from dataclasses import replace
from uuid import uuid4

from outrider.v1 import common_pb2, generation_pb2
from services.draft_protocol.conversions import read_cache
from services.engine.forced_tokens import ForcedTokens
from services.engine.grammar.trial import GrammarTrial
from services.engine.guidance import Guidance
from services.engine.range import Range
from services.engine.request import (
    CachePolicy,
    OutputOptions,
    Request,
    Share,
    SpeculationMode,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.text.healing import Healing, plan_healing
from services.service.access.caller import Caller
from services.service.errors import FingerprintMismatchError
from services.service.limits import LIMITS, MAX_SALT_BYTES
from services.service.validation import Violations
from services.target.api.best_of import check_best_of, ranking_output
from services.target.api.chat import has_call_grammar
from services.target.api.grammar import read_grammar, read_tool_grammar
from services.target.api.infill import read_infill_ends
from services.target.api.output_options import read_output
from services.target.api.request_messages import CachedRequest, GenerationRequest, NamedRequest
from services.target.api.sampling import read_sampling
from services.target.api.stops import read_stops, read_thinking
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
    grammar: GrammarTrial | None,
    model: ServedModel,
    found: Violations,
    *,
    caller: Caller,
    deadline: float | None,
    session: Session | None = None,
    guidance: Guidance | None = None,
    expected: tuple[int, ...] = (),
) -> Request:
    """The engine's request for a caller's message, whose errors so far are in `found`.

    `deadline` is in seconds on the monotonic clock. Raises FingerprintMismatchError, or InvalidRequestError for errors.
    """
    received = _read_continuation(message, model, found)
    _check_num_samples(message, model, found)
    has_gap = message.prompt.HasField("infill")
    ends = {*model.eos_token_ids, *(read_infill_ends(message, model, found) if has_gap else ())}
    stops = read_stops(message.stop, model, found, room=model.context_length - len(prompt), ends=ends)
    request = Request(
        request_id=read_request_id(message, found),
        prompt=prompt,
        healing=_read_healing(message, prompt, model, found),
        received=received,
        sampling=read_sampling(message, model, found),
        stops=stops,
        grammar=grammar,
        thinking=read_thinking(message, prompt, model, found),
        forced=_force(model, prompt, stops),
        guidance=guidance,
        output=_read_output(message, model, found),
        speculation=_read_speculation(message, expected, found),
        cache=_read_cache(message, session, found),
        share=read_share(message, caller, found),
        lora=model.lora,
        num_samples=num_generated(message),
        deadline=deadline,
    )
    found.raise_if_any()
    return request


async def read_request_grammar(
    message: GenerationRequest, prompt: tuple[int, ...], model: ServedModel, found: Violations, *, caller: str
) -> GrammarTrial | None:
    """The grammar of the answer, if there is one; each caller has at most one tried at a time."""
    num_samples = min(num_generated(message), model.max_samples)
    if message.HasField("grammar"):
        if message.prompt.heal:
            found.add("prompt.heal", "is true", "false, or not set, with a grammar")
            found.add("grammar", "is set", "not to be, with prompt.heal")
        if message.grammar.prefer_end and message.stop.min_tokens > 0:
            found.add("grammar.prefer_end", "is true", "false, or not set, with stop.min_tokens")
    if message.prompt.WhichOneof("input") == "chat" and has_call_grammar(message, model):
        return await read_tool_grammar(message, prompt, model, found, caller=caller, num_samples=num_samples)
    if not message.HasField("grammar"):
        return None
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


def _read_speculation(request: GenerationRequest, expected: tuple[int, ...], found: Violations) -> SpeculationPolicy:
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
        expected=expected,
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
