"""Drafting: sampling parameters between the two services, and what the draft's messages mean."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf.message import Message

from outrider.v1 import common_pb2, draft_pb2
from services.engine.allowed_tokens import AllowedTokens
from services.engine.decoder.compute_resources import ComputeResources
from services.engine.events import VocabularyMatch
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingParams

_MATCHES = {
    None: common_pb2.VOCABULARY_MATCH_UNSPECIFIED,
    VocabularyMatch.SAME: common_pb2.VOCABULARY_MATCH_SAME,
    VocabularyMatch.TRANSLATED: common_pb2.VOCABULARY_MATCH_TRANSLATED,
    VocabularyMatch.BYTES: common_pb2.VOCABULARY_MATCH_BYTES,
}
_SAMPLER_NUMBERS = {name.removeprefix("SAMPLER_").lower(): number for name, number in common_pb2.Sampler.items()}
_SAMPLERS: dict[int, str] = {number: name for name, number in _SAMPLER_NUMBERS.items()}


def read_samplers(numbers: Iterable[int]) -> tuple[str, ...]:
    """The names of samplers, in their order; what is none has a name that is none."""
    return tuple(_SAMPLERS.get(number, f"sampler {number}") for number in numbers)


def write_vocabulary_match(match: VocabularyMatch | None) -> common_pb2.VocabularyMatch.ValueType:
    """What a target's vocabulary is to a draft, if that is known."""
    return _MATCHES[match]


def read_vocabulary_match(number: common_pb2.VocabularyMatch.ValueType) -> VocabularyMatch | None:
    """What a target's vocabulary is to a draft; None for what is not known."""
    return next((match for match, known in _MATCHES.items() if known == number), None)


def write_sampling(params: SamplingParams) -> common_pb2.SamplingParameters:
    """How the target draws, with everything set."""
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
    """The only tokens that may be drawn."""
    return b"" if allowed is None else allowed.bits


def read_allowed_tokens(bits: bytes, *, vocab_size: int) -> AllowedTokens | None:
    """Those of a vocabulary of such a size, which may be padded beyond the target's; None for all of them."""
    size = -(-vocab_size // 8)
    return AllowedTokens(bits[:size].ljust(size, b"\0")) if bits else None


def write_dry_breakers(params: SamplingParams) -> bytes:
    """The tokens that no repetition goes across, which count where one may cost something."""
    if not params.dry_multiplier or not params.dry_breaker_ids:
        return b""
    return AllowedTokens.of(params.dry_breaker_ids, vocab_size=1 + max(params.dry_breaker_ids)).bits


def read_dry_breakers(bits: bytes, *, vocab_size: int) -> tuple[int, ...]:
    """Those of a vocabulary of such a size."""
    found = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    return tuple(found[found < vocab_size].tolist())


def read_sampling(
    message: common_pb2.SamplingParameters, allowed: AllowedTokens | None = None, dry_breakers: tuple[int, ...] = ()
) -> SamplingParams:
    """How the target draws; a target sets all that its version has."""
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
    """Where a service computes."""
    return draft_pb2.Place(
        host=resources.host, device=resources.device, cores=sorted(resources.cores), threads=resources.threads
    )


def read_compute_resources(message: draft_pb2.Place) -> ComputeResources:
    """Where a service says that it computes."""
    return ComputeResources(message.host, message.device, frozenset(message.cores), message.threads)
