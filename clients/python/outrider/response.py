"""Responses: from protobuf messages to Python values."""

from google.protobuf.duration_pb2 import Duration

from outrider.chat.decode import parse_deltas
from outrider.token_record import Candidate, Dtype, PredictionSource, RejectedPrediction, Suppressed, Tensor, Token
from outrider.types import (
    Chunk,
    Decoding,
    Encoding,
    FingerprintParts,
    FinishReason,
    Limits,
    LoraAdapter,
    ModelInfo,
    NoSpeculationReason,
    PassReport,
    PositionAcceptance,
    Prefill,
    SourceStats,
    Speculation,
    Started,
    Timings,
    Usage,
)
from outrider.v1 import common_pb2, generation_pb2
from outrider.vocabulary_match import parse_vocabulary_match

_FINISH_REASONS: dict[int, FinishReason] = {
    common_pb2.FINISH_REASON_STOP_TOKEN: FinishReason.STOP_TOKEN,
    common_pb2.FINISH_REASON_STOP_STRING: FinishReason.STOP_STRING,
    common_pb2.FINISH_REASON_MAX_TOKENS: FinishReason.MAX_TOKENS,
    common_pb2.FINISH_REASON_CONTEXT_LENGTH: FinishReason.CONTEXT_LENGTH,
    common_pb2.FINISH_REASON_DEADLINE: FinishReason.DEADLINE,
    common_pb2.FINISH_REASON_NO_CANDIDATES: FinishReason.NO_CANDIDATES,
    common_pb2.FINISH_REASON_GRAMMAR_INCOMPLETE: FinishReason.GRAMMAR_INCOMPLETE,
    common_pb2.FINISH_REASON_INVALID_LOGITS: FinishReason.INVALID_LOGITS,
    common_pb2.FINISH_REASON_TIME_LIMIT: FinishReason.TIME_LIMIT,
    common_pb2.FINISH_REASON_LOOP: FinishReason.LOOP,
}
_NO_SPECULATION_REASONS: dict[int, NoSpeculationReason] = {
    common_pb2.NO_SPECULATION_REASON_FORBIDDEN: NoSpeculationReason.FORBIDDEN,
    common_pb2.NO_SPECULATION_REASON_NO_PREDICTOR: NoSpeculationReason.NO_PREDICTOR,
    common_pb2.NO_SPECULATION_REASON_UNAVAILABLE: NoSpeculationReason.UNAVAILABLE,
    common_pb2.NO_SPECULATION_REASON_SLOWER: NoSpeculationReason.SLOWER,
}
_SOURCES: dict[int, PredictionSource] = {
    common_pb2.PREDICTION_SOURCE_DRAFT: PredictionSource.DRAFT,
    common_pb2.PREDICTION_SOURCE_LOOKUP: PredictionSource.LOOKUP,
    common_pb2.PREDICTION_SOURCE_ATTACHED: PredictionSource.ATTACHED,
    common_pb2.PREDICTION_SOURCE_EXPECTED: PredictionSource.EXPECTED,
}


def parse_started(message: generation_pb2.Started) -> Started:
    """The start of a generation."""
    return Started(
        request_id=message.request_id,
        seed=message.seed,
        prompt_token_ids=tuple(message.prompt_token_ids),
        prompt_tokens=message.prompt_tokens,
        cached_tokens=message.cached_tokens,
        model=message.model,
        fingerprint=message.fingerprint,
        request_digest=message.request_digest,
    )


def parse_prefill(message: generation_pb2.Prefill) -> Prefill:
    """Progress on the prompt."""
    return Prefill(message.done_tokens, message.total_tokens, tuple(map(_token, message.records)))


def parse_chunk(message: generation_pb2.Chunk) -> Chunk:
    """A run of generated tokens."""
    return Chunk(
        text=message.text,
        token_ids=tuple(message.token_ids),
        tokens=tuple(_token(record) for record in message.records),
        pass_reports=tuple(_pass_report(report) for report in message.pass_reports),
        suppressed=tuple(
            Suppressed(one.text, one.banned_string, one.position, one.token_id) for one in message.suppressed
        ),
        message_deltas=parse_deltas(message.message_deltas),
    )


def _pass_report(message: common_pb2.PassReport) -> PassReport:
    return PassReport(
        tokens=message.tokens,
        predicted=message.predicted,
        accepted=message.accepted,
        source=_source(message.source),
        waiting=_seconds(message.waiting),
        verifying=_seconds(message.verifying),
        host=_seconds(message.host) if message.HasField("host") else None,
        alternates=message.alternates,
        rejected=tuple(RejectedPrediction(one.id, one.bytes, one.text) for one in message.rejected),
    )


def _token(record: common_pb2.TokenRecord) -> Token:
    return Token(
        id=record.id,
        bytes=record.bytes,
        text=record.text,
        raw_logprob=record.raw_logprob if record.HasField("raw_logprob") else None,
        processed_logprob=record.processed_logprob if record.HasField("processed_logprob") else None,
        candidates=tuple(_candidate(candidate) for candidate in record.candidates),
        predicted=record.predicted,
        prediction_source=_source(record.prediction_source),
        rank=record.rank if record.HasField("rank") else None,
        entropy=record.entropy if record.HasField("entropy") else None,
        logits=_tensor(record.logits) if record.HasField("logits") else None,
    )


def _tensor(message: common_pb2.Tensor) -> Tensor:
    dtype = Dtype.FLOAT32 if message.dtype == common_pb2.DTYPE_FLOAT32 else Dtype.UNKNOWN
    return Tensor(tuple(message.shape), dtype, message.data)


def _source(number: int) -> PredictionSource | None:
    if number == common_pb2.PREDICTION_SOURCE_UNSPECIFIED:
        return None
    return _SOURCES.get(number, PredictionSource.UNKNOWN)


def _candidate(message: common_pb2.Candidate) -> Candidate:
    return Candidate(message.id, message.bytes, message.text, message.raw_logprob, message.processed_logprob)


def parse_finish_reason(number: int) -> FinishReason:
    """The reason with this number in `outrider.v1.FinishReason`."""
    return _FINISH_REASONS.get(number, FinishReason.UNKNOWN)


def parse_usage(message: common_pb2.Usage) -> Usage:
    """Counts of tokens."""
    return Usage(message.prompt_tokens, message.completion_tokens, message.cached_tokens, message.reasoning_tokens)


def parse_timings(message: common_pb2.Timings) -> Timings:
    """Where the time went, in seconds."""
    return Timings(
        queue=_seconds(message.queue),
        prefill=_seconds(message.prefill),
        first_token=_seconds(message.first_token) if message.HasField("first_token") else None,
        decode=_seconds(message.decode),
        total=_seconds(message.total),
    )


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos * 1e-9


def parse_speculation(message: common_pb2.SpeculationStats) -> Speculation:
    """What speculation did."""
    return Speculation(
        passes=message.passes,
        predicted=message.predicted,
        accepted=message.accepted,
        tokens_per_pass=message.tokens_per_pass,
        by_position=tuple(PositionAcceptance(entry.offered, entry.accepted) for entry in message.by_position),
        no_speculation_reason=_no_speculation_reason(message.no_speculation_reason),
        no_speculation_detail=message.no_speculation_detail,
        alternates=message.alternates,
        draft_losses=message.draft_losses,
        draft_returns=message.draft_returns,
        num_spec_steps=message.num_spec_steps,
        mean_acceptance_length=message.mean_acceptance_length,
        draft_acceptance_rate=message.draft_acceptance_rate,
        acceptance_histogram=tuple(message.acceptance_histogram),
        by_source=tuple(_source_stats(entry) for entry in message.by_source),
        draft_vocabulary=parse_vocabulary_match(message.draft_vocabulary),
        speedup=message.speedup,
        expected_speedup=message.expected_speedup,
    )


def _source_stats(message: common_pb2.SourceStats) -> SourceStats:
    source = _SOURCES.get(message.source, PredictionSource.UNKNOWN)
    return SourceStats(source, message.num_spec_steps, message.predicted, message.accepted)


def _no_speculation_reason(number: int) -> NoSpeculationReason | None:
    if number == common_pb2.NO_SPECULATION_REASON_UNSPECIFIED:
        return None
    return _NO_SPECULATION_REASONS.get(number, NoSpeculationReason.UNKNOWN)


def parse_encoding(message: generation_pb2.TokenizeResponse) -> Encoding:
    """Convert the answer of Tokenize."""
    return Encoding(tuple(message.token_ids), tuple(message.token_bytes))


def parse_decoding(message: generation_pb2.DetokenizeResponse) -> Decoding:
    """Convert the answer of Detokenize."""
    return Decoding(message.text, message.bytes)


def parse_model_info(message: generation_pb2.GetModelInfoResponse) -> ModelInfo:
    """The model and the server."""
    parts = message.fingerprint_parts
    return ModelInfo(
        name=message.name,
        architecture=message.architecture,
        context_length=message.context_length,
        vocab_size=message.vocab_size,
        eos_token_ids=tuple(message.eos_token_ids),
        fingerprint=message.fingerprint,
        fingerprint_parts=FingerprintParts(
            build=parts.build,
            device=parts.device,
            weights_hash=parts.weights_hash,
            weight_format=parts.weight_format,
            kv_type=parts.kv_type,
            noise_version=parts.noise_version,
            tokenizer_hash=parts.tokenizer_hash,
            chat_hash=parts.chat_hash,
        ),
        limits=_limits(message.limits),
        has_chat_template=message.has_chat_template,
        loras=tuple(LoraAdapter(lora.name, lora.fingerprint) for lora in message.loras),
        has_infill=message.has_infill,
        has_draft=message.has_draft,
        head=message.head,
    )


def _limits(limits: generation_pb2.Limits) -> Limits:
    return Limits(
        max_stop_strings=limits.max_stop_strings,
        max_stop_string_bytes=limits.max_stop_string_bytes,
        max_stop_token_ids=limits.max_stop_token_ids,
        max_logit_biases=limits.max_logit_biases,
        max_top_candidates=limits.max_top_candidates,
        max_predictions=limits.max_predictions,
        max_request_id_bytes=limits.max_request_id_bytes,
        max_loop_window=limits.max_loop_window,
        max_logits_token_ids=limits.max_logits_token_ids,
        max_grammar_bytes=limits.max_grammar_bytes,
        max_banned_strings=limits.max_banned_strings,
        max_banned_string_bytes=limits.max_banned_string_bytes,
        max_tools=limits.max_tools,
        max_tools_bytes=limits.max_tools_bytes,
        max_suppressed_token_ids=limits.max_suppressed_token_ids,
        max_bad_words=limits.max_bad_words,
        max_bad_word_tokens=limits.max_bad_word_tokens,
        max_sequence_breakers=limits.max_sequence_breakers,
        max_sequence_breaker_bytes=limits.max_sequence_breaker_bytes,
        max_infill_files=limits.max_infill_files,
    )
