"""Records: token records as messages of bounded size."""

from collections.abc import Iterable, Iterator

from outrider.v1 import common_pb2
from services.engine.events import Candidate, PredictionSource, TokenRecord
from services.engine.text.tokenizer import Tokenizer
from services.service.limits import MAX_RECORDS_BYTES

_FLOAT32_BYTES = 4
_SOURCES = {
    None: common_pb2.PREDICTION_SOURCE_UNSPECIFIED,
    PredictionSource.DRAFT: common_pb2.PREDICTION_SOURCE_DRAFT,
    PredictionSource.LOOKUP: common_pb2.PREDICTION_SOURCE_LOOKUP,
    PredictionSource.ATTACHED: common_pb2.PREDICTION_SOURCE_ATTACHED,
    PredictionSource.EXPECTED: common_pb2.PREDICTION_SOURCE_EXPECTED,
}


def write_records(records: Iterable[TokenRecord], tokenizer: Tokenizer) -> Iterator[list[common_pb2.TokenRecord]]:
    """The records, in runs that each fit into one message; at least one run."""
    run: list[common_pb2.TokenRecord] = []
    run_bytes = 0
    for record in records:
        message = _write_record(record, tokenizer)
        num_bytes = message.ByteSize()
        if run and run_bytes + num_bytes > MAX_RECORDS_BYTES:
            yield run
            run, run_bytes = [], 0
        run.append(message)
        run_bytes += num_bytes
    yield run


def _write_record(record: TokenRecord, tokenizer: Tokenizer) -> common_pb2.TokenRecord:
    return common_pb2.TokenRecord(
        id=record.token_id,
        bytes=tokenizer.token_bytes(record.token_id),
        text=tokenizer.token_text(record.token_id),
        raw_logprob=record.raw_logprob,
        processed_logprob=record.logprob,
        candidates=[_write_candidate(candidate, tokenizer) for candidate in record.candidates],
        predicted=record.predicted,
        prediction_source=write_source(record.source),
        rank=record.rank,
        entropy=record.entropy,
        logits=None if record.logits is None else _write_vector(record.logits),
    )


def _write_candidate(candidate: Candidate, tokenizer: Tokenizer) -> common_pb2.Candidate:
    return common_pb2.Candidate(
        id=candidate.token_id,
        bytes=tokenizer.token_bytes(candidate.token_id),
        text=tokenizer.token_text(candidate.token_id),
        raw_logprob=candidate.raw_logprob,
        processed_logprob=candidate.logprob,
    )


def _write_vector(data: bytes) -> common_pb2.Tensor:
    return common_pb2.Tensor(shape=[len(data) // _FLOAT32_BYTES], dtype=common_pb2.DTYPE_FLOAT32, data=data)


def write_source(source: PredictionSource | None) -> common_pb2.PredictionSource.ValueType:
    """The source of a prediction, unspecified if there was none."""
    return _SOURCES[source]
