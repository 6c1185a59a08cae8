"""Sampling parameters: numbers, lists, and the checks of samplers that earlier draws steer."""

import secrets
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

from google.protobuf.message import Message

from outrider.v1 import common_pb2
from services.draft_protocol.conversions import read_samplers
from services.engine.allowed_tokens import AllowedTokens
from services.engine.range import BIAS
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingParams
from services.service.limits import LIMITS
from services.service.validation import Violations, is_bias
from services.target.api.request_messages import GenerationRequest
from services.target.models.served_model import ServedModel

_BREAKERS = ("\n", ":", '"', "*")
_BIASES = f"{BIAS}, or minus infinity"
_SAMPLERS = {*common_pb2.Sampler.values()} - {common_pb2.SAMPLER_UNSPECIFIED}


def read_sampling(message: GenerationRequest, model: ServedModel, found: Violations) -> SamplingParams:
    """The sampling parameters, with the model's defaults and a new seed where none is set; errors go to `found`."""
    asked = message.sampling
    numbers: dict[str, Any] = {**model.defaults, **_read_numbers(asked, found)}
    lists = _read_lists(asked, model, found) if _has_lists(asked) else {}
    rules = {name: ids for name, ids in model.token_rules.items() if not lists.get(name)}
    seed = asked.seed if asked.HasField("seed") else secrets.randbits(64)
    sampling = SamplingParams(seed=seed, **numbers, **{**lists, **rules})
    if sampling.mirostat_mode or sampling.adaptive_target >= 0:
        _check_feedback(message, sampling, found)
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


def _read_lists(message: common_pb2.SamplingParameters, model: ServedModel, found: Violations) -> Mapping[str, Any]:
    """The list parameters by their names in SamplingParams."""
    return {
        "samplers": _read_samplers(message, found),
        "logit_bias": _read_logit_bias(message, model, found),
        "banned_strings": _read_banned_strings(message, found),
        "allowed_tokens": _read_allowed_tokens(message, model, found),
        "suppressed_ids": _read_ids("suppress_token_ids", message.suppress_token_ids, model, found),
        "begin_suppressed_ids": _read_ids("begin_suppress_token_ids", message.begin_suppress_token_ids, model, found),
        "bad_words": _read_bad_words(message, model, found),
        "dry_breaker_ids": _read_breakers(message, model, found),
    }


def _read_samplers(message: common_pb2.SamplingParameters, found: Violations) -> tuple[str, ...]:
    field = "sampling.samplers"
    entries = found.within(field, message.samplers, len(_SAMPLERS))
    names = ", ".join(common_pb2.Sampler.Name(number) for number in sorted(_SAMPLERS))
    found.check_entries(field, entries, _SAMPLERS.__contains__, lambda number: f"is {number}", names)
    samplers = read_samplers(entries)
    if len({*samplers}) < len(samplers):
        repeated = next(name for name, count in Counter(samplers).items() if count > 1)
        found.add(field, f"names {repeated} more than once", "each sampler at most once")
    return samplers


def _read_logit_bias(message: common_pb2.SamplingParameters, model: ServedModel, found: Violations) -> dict[int, float]:
    field = "sampling.logit_bias"
    entries = found.within(field, message.logit_bias, LIMITS.max_logit_biases)
    ids = [entry.token_id for entry in entries]
    biases = dict(zip(ids, (entry.bias for entry in entries), strict=True))
    found.check_token_ids(field, ids, model.config.vocab_size, ".token_id")
    found.check_entries(
        field,
        [entry.bias for entry in entries],
        is_bias,
        lambda bias: f"is {bias:g}",
        _BIASES,
        ".bias",
    )
    if len(biases) < len(ids) == len(message.logit_bias):
        repeated = next(token_id for token_id, count in Counter(ids).items() if count > 1)
        found.add(field, f"names token {repeated} more than once", "each token at most once")
    return biases


def _read_allowed_tokens(
    message: common_pb2.SamplingParameters, model: ServedModel, found: Violations
) -> AllowedTokens | None:
    field, token_ids, vocab_size = "sampling.allowed_token_ids", message.allowed_token_ids, model.config.vocab_size
    if not token_ids:
        return None
    if len(token_ids) > vocab_size:
        found.check_length(field, token_ids, vocab_size)
        return None
    if max(token_ids) >= vocab_size:
        found.check_token_ids(field, token_ids, vocab_size)
        return None
    return AllowedTokens.of(token_ids, vocab_size=vocab_size)


def _read_banned_strings(message: common_pb2.SamplingParameters, found: Violations) -> tuple[str, ...]:
    field = "sampling.banned_strings"
    entries = found.within(field, message.banned_strings, LIMITS.max_banned_strings)
    found.check_sizes(field, entries, LIMITS.max_banned_string_bytes)
    found.check_entries(
        field, entries, lambda string: "\ufffd" not in string, lambda _: "has U+FFFD", "strings of characters"
    )
    return tuple(entries)


def _read_breakers(message: common_pb2.SamplingParameters, model: ServedModel, found: Violations) -> tuple[int, ...]:
    field = "sampling.dry_sequence_breakers"
    entries = found.within(field, message.dry_sequence_breakers, LIMITS.max_sequence_breakers)
    found.check_sizes(field, entries, LIMITS.max_sequence_breaker_bytes)
    if found or not message.dry_multiplier:
        return ()
    return model.token_search.ids_with(entries or _BREAKERS)


def _read_ids(name: str, token_ids: Seq[int], model: ServedModel, found: Violations) -> tuple[int, ...]:
    field = f"sampling.{name}"
    entries = found.within(field, token_ids, LIMITS.max_suppressed_token_ids)
    found.check_token_ids(field, entries, model.config.vocab_size)
    return tuple(entries)


def _read_bad_words(
    message: common_pb2.SamplingParameters, model: ServedModel, found: Violations
) -> tuple[tuple[int, ...], ...]:
    field, most = "sampling.bad_words_ids", LIMITS.max_bad_word_tokens
    words = found.within(field, message.bad_words_ids, LIMITS.max_bad_words)
    lengths = [len(word.ids) for word in words]
    found.check_entries(
        field, lengths, lambda length: 0 < length <= most, lambda length: f"has {length} tokens", f"1 to {most} tokens"
    )
    for index, word in enumerate(words):
        found.check_token_ids(f"{field}[{index}].ids", word.ids[:most], model.config.vocab_size)
    return tuple(tuple(word.ids[:most]) for word in words)


def _check_feedback(message: GenerationRequest, sampling: SamplingParams, found: Violations) -> None:
    """Add the options that do not go with Mirostat or adaptive-p to `found`; one of the two is on.

    A continuation must reach the same sampler state from the received tokens alone. Banned strings take back tokens
    that changed the state but that a continuation does not receive; a healed prompt draws a token before the answer;
    and a continuation replays the received tokens by the rows of its own text, without those of a negative prompt.
    """
    if sampling.mirostat_mode == 0:
        field, value, allowed = "sampling.adaptive_target", f"is {sampling.adaptive_target:g}", "below 0"
    else:
        field, value, allowed = "sampling.mirostat_mode", f"is {sampling.mirostat_mode}", "0"
    if sampling.mirostat_mode and sampling.adaptive_target >= 0:
        found.add("sampling.adaptive_target", f"is {sampling.adaptive_target:g}", "below 0 with mirostat_mode")
    if message.sampling.banned_strings:
        found.add(field, value, f"{allowed} with banned_strings")
    if message.HasField("guidance"):
        found.add(field, value, f"{allowed} with guidance")
    if message.prompt.heal:
        found.add(field, value, f"{allowed} with prompt.heal")
