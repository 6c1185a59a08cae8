"""Conversions: engine types to and from the messages of a link; clients' requests have some of the same messages."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf.message import Message

from outrider.v1 import common_pb2, draft_pb2
from services.engine.allowed_tokens import AllowedTokens
from services.engine.decoder.compute_resources import ComputeResources
from services.engine.events import VocabularyMatch
from services.engine.grammar.reasoning import ReasoningMarks
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import CachePolicy
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingParams

_MATCHES = {
    None: common_pb2.VOCABULARY_MATCH_UNSPECIFIED,
    VocabularyMatch.SAME: common_pb2.VOCABULARY_MATCH_SAME,
    VocabularyMatch.TRANSLATED: common_pb2.VOCABULARY_MATCH_TRANSLATED,
    VocabularyMatch.BYTES: common_pb2.VOCABULARY_MATCH_BYTES,
}
_SAMPLER_NUMBERS = {name.removeprefix("SAMPLER_").lower(): number for name, number in common_pb2.Sampler.items()}
_SAMPLERS: dict[int, str] = {number: name for name, number in _SAMPLER_NUMBERS.items()}
_GRAMMAR_KINDS = {"json_schema": GrammarKind.JSON_SCHEMA, "regex": GrammarKind.REGEX, "lark": GrammarKind.LARK}
_GRAMMAR_NAMES = {kind: name for name, kind in _GRAMMAR_KINDS.items()}


def read_samplers(numbers: Iterable[int]) -> tuple[str, ...]:
    """The names of samplers, in order; an unknown number gets a name that is no sampler's."""
    return tuple(_SAMPLERS.get(number, f"sampler {number}") for number in numbers)


def write_vocabulary_match(match: VocabularyMatch | None) -> common_pb2.VocabularyMatch.ValueType:
    """How a target's vocabulary matches the draft's; None if it is not known."""
    return _MATCHES[match]


def read_vocabulary_match(number: common_pb2.VocabularyMatch.ValueType) -> VocabularyMatch | None:
    """How a target's vocabulary matches the draft's; None for an unknown number."""
    return next((match for match, known in _MATCHES.items() if known == number), None)


def write_sampling(params: SamplingParams) -> common_pb2.SamplingParameters:
    """The message of the target's sampling parameters, with every field set."""
    return common_pb2.SamplingParameters(
        seed=params.seed,
        samplers=[_SAMPLER_NUMBERS[name] for name in params.samplers],
        logit_bias=[common_pb2.LogitBias(token_id=token_id, bias=bias) for token_id, bias in params.logit_bias.items()],
        suppress_token_ids=params.suppressed_ids,
        begin_suppress_token_ids=params.begin_suppressed_ids,
        bad_words_ids=[common_pb2.TokenIds(ids=word) for word in params.bad_words],
        **{number.name: getattr(params, number.name) for number in SAMPLING_NUMBERS},
    )


def write_allowed_tokens(allowed: AllowedTokens | None) -> bytes:
    """The only tokens that may be drawn, one bit per id; empty for all."""
    return b"" if allowed is None else allowed.bits


def read_allowed_tokens(bits: bytes, *, vocab_size: int) -> AllowedTokens | None:
    """The allowed tokens among `vocab_size` ids, which may be padded beyond the target's; None for all."""
    size = -(-vocab_size // 8)
    return AllowedTokens(bits[:size].ljust(size, b"\0")) if bits else None


def write_dry_breakers(params: SamplingParams) -> bytes:
    """The tokens that end a DRY repetition, one bit per id; empty if there is no DRY penalty."""
    if not params.dry_multiplier or not params.dry_breaker_ids:
        return b""
    return AllowedTokens.of(params.dry_breaker_ids, vocab_size=1 + max(params.dry_breaker_ids)).bits


def read_dry_breakers(bits: bytes, *, vocab_size: int) -> tuple[int, ...]:
    """The DRY breakers below `vocab_size`."""
    found = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    return tuple(found[found < vocab_size].tolist())


def read_sampling(
    message: common_pb2.SamplingParameters, allowed: AllowedTokens | None = None, dry_breakers: tuple[int, ...] = ()
) -> SamplingParams:
    """The target's sampling parameters; a target sets every field that its version has."""
    return SamplingParams(
        seed=message.seed,
        samplers=read_samplers(message.samplers),
        logit_bias={entry.token_id: entry.bias for entry in message.logit_bias},
        allowed_tokens=allowed,
        suppressed_ids=tuple(message.suppress_token_ids),
        begin_suppressed_ids=tuple(message.begin_suppress_token_ids),
        dry_breaker_ids=dry_breakers,
        bad_words=tuple(tuple(word.ids) for word in message.bad_words_ids),
        **_read_numbers(message),
    )


def _read_numbers(message: Message) -> dict[str, Any]:
    return {number.name: getattr(message, number.name) for number in SAMPLING_NUMBERS if message.HasField(number.name)}


def write_compute_resources(resources: ComputeResources) -> draft_pb2.Place:
    """The message of the device, cores and threads that a service computes with."""
    return draft_pb2.Place(
        host=resources.host, device=resources.device, cores=sorted(resources.cores), threads=resources.threads
    )


def read_compute_resources(message: draft_pb2.Place) -> ComputeResources:
    """The device, cores and threads that a service reported."""
    return ComputeResources(message.host, message.device, frozenset(message.cores), message.threads)


def read_source(message: common_pb2.Grammar) -> GrammarSource:
    """The source text of a message's grammar."""
    name = message.WhichOneof("kind")
    if name is None or name == "choice":
        kind, texts = GrammarKind.CHOICE, tuple(message.choice.texts)
    else:
        kind, texts = _GRAMMAR_KINDS[name], (getattr(message, name),)
    return GrammarSource(kind, texts, message.prefer_end, _read_reasoning(message.reasoning))


def _read_reasoning(message: common_pb2.Reasoning) -> ReasoningMarks | None:
    return ReasoningMarks(message.start, message.end, message.begun, message.prefix) if message.end else None


def write_grammar(source: GrammarSource) -> common_pb2.Grammar:
    """The message of a grammar's source text."""
    message = common_pb2.Grammar(prefer_end=source.prefers_end or None)
    if source.kind is GrammarKind.CHOICE:
        message.choice.texts.extend(source.texts)
    else:
        setattr(message, _GRAMMAR_NAMES[source.kind], source.texts[0])
    if (marks := source.reasoning) is not None:
        message.reasoning.CopyFrom(
            common_pb2.Reasoning(start=marks.start, end=marks.end, begun=marks.is_begun, prefix=marks.prefix)
        )
    return message


def read_cache(message: common_pb2.CachePolicy) -> CachePolicy:
    """The cache policy that a client, or a target, sent."""
    return CachePolicy(prefix=message.prefix or not message.HasField("prefix"), salt=message.salt)


def write_cache(policy: CachePolicy) -> common_pb2.CachePolicy:
    """The message that a target sends to its draft."""
    return common_pb2.CachePolicy(prefix=policy.prefix, salt=policy.salt)
