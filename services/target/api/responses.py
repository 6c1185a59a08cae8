"""Responses: from what the engine tells to messages."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from outrider.v1 import common_pb2, generation_pb2
from services.engine.events import (
    Chunk,
    Finished,
    FinishReason,
    Progress,
    Suppressed,
    Timings,
)
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.service.limits import LIMITS
from services.target.api.durations import write_duration
from services.target.api.records import write_records
from services.target.api.served_model import ServedModel
from services.target.api.speculation_stats import write_pass_report, write_speculation

_TOKENS_AT_ONCE = 1 << 13  # that a message takes in without giving other threads a turn
_REASONS = {
    FinishReason.STOP_TOKEN: common_pb2.FINISH_REASON_STOP_TOKEN,
    FinishReason.STOP_STRING: common_pb2.FINISH_REASON_STOP_STRING,
    FinishReason.MAX_TOKENS: common_pb2.FINISH_REASON_MAX_TOKENS,
    FinishReason.CONTEXT_LENGTH: common_pb2.FINISH_REASON_CONTEXT_LENGTH,
    FinishReason.DEADLINE: common_pb2.FINISH_REASON_DEADLINE,
    FinishReason.NO_CANDIDATES: common_pb2.FINISH_REASON_NO_CANDIDATES,
    FinishReason.INVALID_LOGITS: common_pb2.FINISH_REASON_INVALID_LOGITS,
    FinishReason.TIME_LIMIT: common_pb2.FINISH_REASON_TIME_LIMIT,
    FinishReason.LOOP: common_pb2.FINISH_REASON_LOOP,
}


def write_started(
    request: Request, model: ServedModel, *, num_cached: int, with_prompt: bool
) -> generation_pb2.StreamGenerateResponse:
    """The start of a generation; `num_cached` tokens need not be computed."""
    started = generation_pb2.Started(
        request_id=request.request_id,
        seed=request.sampling.seed,
        prompt_token_ids=request.prompt if with_prompt else (),
        prompt_tokens=len(request.prompt),
        cached_tokens=num_cached,
        model=model.name,
        fingerprint=str(model.fingerprint),
    )
    return generation_pb2.StreamGenerateResponse(started=started)


def write_event(
    event: Progress | Chunk | Finished, request: Request, tokenizer: Tokenizer
) -> Iterator[generation_pb2.StreamGenerateResponse]:
    """One event of a generation, in as many messages as its size asks for."""
    response = generation_pb2.StreamGenerateResponse
    match event:
        case Progress():
            for records in write_records(event.records, tokenizer):
                progress = generation_pb2.Prefill(done_tokens=event.done, total_tokens=event.total, records=records)
                yield response(prefill=progress)
        case Chunk() if request.output.records:
            for chunk in _write_recorded(event, tokenizer):
                yield response(chunk=chunk)
        case Chunk():
            yield response(chunk=_write_chunk(event))
        case Finished():
            yield response(finished=_write_finished(event))


def write_whole(responses: Iterable[generation_pb2.StreamGenerateResponse]) -> generation_pb2.GenerateResponse:
    """A whole generation in one message, or all samples."""
    by_sample: dict[int, list[generation_pb2.StreamGenerateResponse]] = defaultdict(list)
    for response in responses:
        by_sample[response.sample].append(response)
    whole, *further = (_write_sample(by_sample[index]) for index in range(len(by_sample)))
    whole.further_samples.extend(further)
    return whole


def _write_sample(responses: Iterable[generation_pb2.StreamGenerateResponse]) -> generation_pb2.GenerateResponse:
    whole = generation_pb2.GenerateResponse()
    texts: list[str] = []
    for response in responses:
        match response.WhichOneof("event"):
            case "started":
                whole.started.CopyFrom(response.started)
            case "prefill":
                whole.prompt_records.extend(response.prefill.records)
            case "chunk":
                texts.append(response.chunk.text)
                whole.token_ids.extend(response.chunk.token_ids)
                whole.records.extend(response.chunk.records)
                whole.pass_reports.extend(response.chunk.pass_reports)
                whole.suppressed.extend(response.chunk.suppressed)
            case "finished":
                texts.append(response.finished.text)
                whole.finished.CopyFrom(response.finished)
    whole.text = "".join(texts)
    return whole


def write_tokens(token_ids: Sequence[int], tokenizer: Tokenizer) -> generation_pb2.TokenizeResponse:
    """Encoded text."""
    response = generation_pb2.TokenizeResponse()
    for start in range(0, len(token_ids), _TOKENS_AT_ONCE):
        piece = token_ids[start : start + _TOKENS_AT_ONCE]
        response.token_ids.extend(piece)
        response.token_bytes.extend([tokenizer.token_bytes(token_id) for token_id in piece])
    return response


def write_model_info(model: ServedModel) -> generation_pb2.GetModelInfoResponse:
    """The model and what may be asked of it."""
    parts = model.fingerprint
    return generation_pb2.GetModelInfoResponse(
        name=model.name,
        architecture=model.config.architecture,
        context_length=model.context_length,
        vocab_size=model.config.vocab_size,
        eos_token_ids=model.eos_token_ids,
        fingerprint=str(parts),
        fingerprint_parts=generation_pb2.FingerprintParts(
            build=f"{parts.version}+{parts.build}",
            device=parts.device,
            weights_hash=parts.weights_hash,
            weight_format=parts.weight_format,
            kv_type=parts.kv_type,
            noise_version=parts.noise_version,
        ),
        limits=generation_pb2.Limits(**asdict(LIMITS)),
        has_chat_template=model.chat_template.exists,
    )


def _write_chunk(chunk: Chunk) -> generation_pb2.Chunk:
    return generation_pb2.Chunk(
        text=chunk.text,
        token_ids=[record.token_id for record in chunk.records],
        pass_reports=[write_pass_report(report) for report in chunk.reports],
        suppressed=map(_write_suppressed, chunk.suppressed),
    )


def _write_recorded(chunk: Chunk, tokenizer: Tokenizer) -> Iterator[generation_pb2.Chunk]:
    end = 0
    for records in write_records(chunk.records, tokenizer):
        first, end = end, end + len(records)
        is_first, is_last = first == 0, end == len(chunk.records)
        yield generation_pb2.Chunk(
            text=chunk.text_of(first, end),
            token_ids=[record.id for record in records],
            records=records,
            pass_reports=[write_pass_report(report) for report in chunk.reports] if is_last else (),
            suppressed=map(_write_suppressed, chunk.suppressed) if is_first else (),
        )


def _write_suppressed(suppressed: Suppressed) -> common_pb2.Suppressed:
    return common_pb2.Suppressed(**asdict(suppressed))


def _write_finished(finished: Finished) -> generation_pb2.Finished:
    message = generation_pb2.Finished(
        reason=_REASONS[finished.reason],
        usage=common_pb2.Usage(
            prompt_tokens=finished.prompt_tokens,
            completion_tokens=finished.completion_tokens,
            cached_tokens=finished.cached_tokens,
        ),
        timings=_write_timings(finished.timings),
        speculation=write_speculation(finished.speculation),
        text=finished.text,
    )
    if finished.stop_string is not None:
        message.stop_string = finished.stop_string
    elif finished.stop_token_id is not None:
        message.stop_token_id = finished.stop_token_id
    return message


def _write_timings(timings: Timings) -> common_pb2.Timings:
    """Moments to the spans between them; one that was not reached falls on the end."""
    scheduled = timings.scheduled or timings.finished
    prefilled = timings.prefilled or timings.finished
    return common_pb2.Timings(
        queue=write_duration(scheduled - timings.arrived),
        prefill=write_duration(prefilled - scheduled),
        first_token=write_duration(prefilled - timings.arrived) if timings.prefilled else None,
        decode=write_duration(timings.finished - prefilled),
        total=write_duration(timings.finished - timings.arrived),
    )
