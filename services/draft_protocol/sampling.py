"""Drafting: sampling parameters between the two services, and what the draft's messages mean."""

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
        logit_bias=[common_pb2.LogitBias(token_id=token_id, bias=bias) for token_id, bias in params.logit_bias.items()],
        **{number.name: getattr(params, number.name) for number in SAMPLING_NUMBERS},
    )


def write_allowed_tokens(allowed: AllowedTokens | None) -> bytes:
    """The only tokens that may be drawn."""
    return b"" if allowed is None else allowed.bits


def read_allowed_tokens(bits: bytes, *, vocab_size: int) -> AllowedTokens | None:
    """Those of a vocabulary of such a size, which may be padded beyond the target's; None for all of them."""
    size = -(-vocab_size // 8)
    return AllowedTokens(bits[:size].ljust(size, b"\0")) if bits else None


def read_sampling(message: common_pb2.SamplingParameters, allowed: AllowedTokens | None = None) -> SamplingParams:
    """How the target draws; a target sets everything."""
    return SamplingParams(
        seed=message.seed,
        logit_bias={entry.token_id: entry.bias for entry in message.logit_bias},
        allowed_tokens=allowed,
        **{number.name: getattr(message, number.name) for number in SAMPLING_NUMBERS},
    )


def write_compute_resources(resources: ComputeResources) -> draft_pb2.Place:
    """Where a service computes."""
    return draft_pb2.Place(
        host=resources.host, device=resources.device, cores=sorted(resources.cores), threads=resources.threads
    )


def read_compute_resources(message: draft_pb2.Place) -> ComputeResources:
    """Where a service says that it computes."""
    return ComputeResources(message.host, message.device, frozenset(message.cores), message.threads)
