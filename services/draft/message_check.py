"""MessageCheck: the limits of a target's messages, checked before any of their contents is walked or kept."""

from outrider.v1 import common_pb2, draft_pb2
from services.draft_protocol.conversions import read_source
from services.draft_protocol.protocol import MAX_COMMIT, MAX_MASKED, MAX_REQUESTS
from services.service.limits import LIMITS, MAX_SALT_BYTES


class ProtocolError(RuntimeError):
    """A message that the protocol does not allow."""


def check_count(request: draft_pb2.DraftRequest) -> None:
    """Raise ProtocolError if too many messages come as one."""
    if (count := 1 + len(request.further)) > MAX_REQUESTS:
        raise ProtocolError(f"{count} messages came as one; at most {MAX_REQUESTS} are allowed")


def check_message(request: draft_pb2.DraftRequest) -> None:
    """Raise ProtocolError for a message that may not follow the hello, or that has a field that is too long."""
    match request.WhichOneof("message"):
        case "open":
            _check_open(request.open)
        case "commit":
            _check_length("commit.token_ids", len(request.commit.token_ids), MAX_COMMIT)
        case "hello":
            raise ProtocolError("there was a second hello; a link has one, its first message")
        case None:
            raise ProtocolError("there was a message with none of open, commit, window and close in it")


def _check_open(message: draft_pb2.Open) -> None:
    _check_length("open.masked_token_ids", len(message.masked_token_ids), MAX_MASKED)
    _check_length("open.sampling.logit_bias", len(message.sampling.logit_bias), LIMITS.max_logit_biases)
    _check_rules(message.sampling)
    if message.HasField("grammar"):
        _check_length("open.grammar.choice.texts", len(message.grammar.choice.texts), LIMITS.max_grammar_bytes)
        if (size := read_source(message.grammar).num_bytes) > LIMITS.max_grammar_bytes:
            raise ProtocolError(f"open.grammar has {size} bytes; at most {LIMITS.max_grammar_bytes} are allowed")
    if (size := len(message.cache.salt.encode())) > MAX_SALT_BYTES:
        raise ProtocolError(f"open.cache.salt has {size} bytes; allowed: at most {MAX_SALT_BYTES} bytes")


def _check_rules(message: common_pb2.SamplingParameters) -> None:
    most = LIMITS.max_suppressed_token_ids
    _check_length("open.sampling.suppress_token_ids", len(message.suppress_token_ids), most)
    _check_length("open.sampling.begin_suppress_token_ids", len(message.begin_suppress_token_ids), most)
    _check_length("open.sampling.bad_words_ids", len(message.bad_words_ids), LIMITS.max_bad_words)
    for word in message.bad_words_ids:
        _check_length("open.sampling.bad_words_ids", len(word.ids), LIMITS.max_bad_word_tokens)
    _check_length("open.sampling.samplers", len(message.samplers), len(common_pb2.Sampler.keys()))


def _check_length(field: str, length: int, most: int) -> None:
    if length > most:
        raise ProtocolError(f"{field} has {length} entries; at most {most} are allowed")
