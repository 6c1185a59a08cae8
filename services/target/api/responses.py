"""Responses: writes the events of a generation as messages, and its text as the parts of a chat message."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict
from itertools import pairwise

from google.protobuf.duration_pb2 import Duration

from outrider.v1 import common_pb2, generation_pb2
from services.draft_protocol.conversions import read_source, write_grammar, write_vocabulary_match
from services.engine.events import (
    Chunk,
    Finished,
    FinishReason,
    NoSpeculation,
    PassReport,
    Progress,
    Scheduled,
    SpeculationStats,
    Suppressed,
    Timings,
)
from services.engine.grammar.source import GrammarSource
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.target.api.records import write_records, write_source
from services.target.api.request_messages import GenerationRequest
from services.target.models.served_model import ServedModel
from services.target.sequence.generation import Generation

_REASONS = {
    FinishReason.STOP_TOKEN: common_pb2.FINISH_REASON_STOP_TOKEN,
    FinishReason.STOP_STRING: common_pb2.FINISH_REASON_STOP_STRING,
    FinishReason.MAX_TOKENS: common_pb2.FINISH_REASON_MAX_TOKENS,
    FinishReason.CONTEXT_LENGTH: common_pb2.FINISH_REASON_CONTEXT_LENGTH,
    FinishReason.DEADLINE: common_pb2.FINISH_REASON_DEADLINE,
    FinishReason.NO_CANDIDATES: common_pb2.FINISH_REASON_NO_CANDIDATES,
    FinishReason.GRAMMAR_INCOMPLETE: common_pb2.FINISH_REASON_GRAMMAR_INCOMPLETE,
    FinishReason.INVALID_LOGITS: common_pb2.FINISH_REASON_INVALID_LOGITS,
    FinishReason.TIME_LIMIT: common_pb2.FINISH_REASON_TIME_LIMIT,
    FinishReason.LOOP: common_pb2.FINISH_REASON_LOOP,
}
_NO_SPECULATION = {
    NoSpeculation.FORBIDDEN: common_pb2.NO_SPECULATION_REASON_FORBIDDEN,
    NoSpeculation.NO_PREDICTOR: common_pb2.NO_SPECULATION_REASON_NO_PREDICTOR,
    NoSpeculation.UNAVAILABLE: common_pb2.NO_SPECULATION_REASON_UNAVAILABLE,
    NoSpeculation.SLOWER: common_pb2.NO_SPECULATION_REASON_SLOWER,
}


def write_starts(
    generations: Seq[Generation], model: ServedModel, message: GenerationRequest, digest: str
) -> Iterator[generation_pb2.StreamGenerateResponse]:
    """The start of each sample; the number of cached prompt tokens must be known. `digest` is that of the request."""
    num_cached = generations[0].num_cached
    with_prompt = message.output.prompt_token_ids
    for index, generation in enumerate(generations):
        response = _write_started(
            generation.request,
            model,
            num_cached=num_cached,
            with_prompt=with_prompt,
            own_grammar=read_source(message.grammar) if message.HasField("grammar") else None,
        )
        response.started.request_digest = digest
        response.sample = index
        yield response


def _write_started(
    request: Request, model: ServedModel, *, num_cached: int, with_prompt: bool, own_grammar: GrammarSource | None
) -> generation_pb2.StreamGenerateResponse:
    """The start of a generation; `num_cached` prompt tokens were found in the cache.

    The grammar of the answer is in it if the server has made it or changed it.
    """
    started = generation_pb2.Started(
        request_id=request.request_id,
        seed=request.sampling.seed,
        prompt_token_ids=request.prompt if with_prompt else (),
        prompt_tokens=len(request.prompt),
        cached_tokens=num_cached,
        model=model.name,
        fingerprint=model.fingerprint.digest,
    )
    if with_prompt and request.grammar is not None and request.grammar.source != own_grammar:
        started.grammar.CopyFrom(write_grammar(request.grammar.source))
    return generation_pb2.StreamGenerateResponse(started=started)


def write_event(
    event: Scheduled | Progress | Chunk | Finished, request: Request, tokenizer: Tokenizer
) -> Iterator[generation_pb2.StreamGenerateResponse]:
    """One event of a generation, in as many messages as its size requires; none for one that clients need not know."""
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
            yield response(chunk=_write_chunk(event, tokenizer))
        case Finished():
            yield response(finished=_write_finished(event))


def write_whole(
    responses: Iterable[generation_pb2.StreamGenerateResponse], *, as_message: bool
) -> generation_pb2.GenerateResponse:
    """A whole generation, all samples, in one message; `as_message` adds each answer as a chat message."""
    by_sample: dict[int, list[generation_pb2.StreamGenerateResponse]] = defaultdict(list)
    for response in responses:
        by_sample[response.sample].append(response)
    whole, *further = (_write_sample(by_sample[index], as_message=as_message) for index in range(len(by_sample)))
    whole.further_samples.extend(further)
    return whole


def _write_sample(
    responses: Iterable[generation_pb2.StreamGenerateResponse], *, as_message: bool
) -> generation_pb2.GenerateResponse:
    whole = generation_pb2.GenerateResponse()
    texts: list[str] = []
    deltas: list[common_pb2.MessageDelta] = []
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
                deltas += response.chunk.message_deltas
            case "finished":
                texts.append(response.finished.text)
                whole.finished.CopyFrom(response.finished)
                deltas += response.finished.message_deltas
                whole.finished.ClearField("message_deltas")
    if as_message:
        whole.message.CopyFrom(write_message(deltas))
    whole.text = "".join(texts)
    return whole


def _write_chunk(chunk: Chunk, tokenizer: Tokenizer) -> generation_pb2.Chunk:
    return generation_pb2.Chunk(
        text=chunk.text,
        token_ids=[record.token_id for record in chunk.records],
        pass_reports=[write_pass_report(report, tokenizer) for report in chunk.reports],
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
            pass_reports=[write_pass_report(report, tokenizer) for report in chunk.reports] if is_last else (),
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
    """The spans between the timings' moments; a moment that was not reached counts as the end."""
    scheduled = timings.scheduled or timings.finished
    prefilled = timings.prefilled or timings.finished
    return common_pb2.Timings(
        queue=_write_duration(scheduled - timings.arrived),
        prefill=_write_duration(prefilled - scheduled),
        first_token=_write_duration(prefilled - timings.arrived) if timings.prefilled else None,
        decode=_write_duration(timings.finished - prefilled),
        total=_write_duration(timings.finished - timings.arrived),
    )


def write_pass_report(report: PassReport, tokenizer: Tokenizer) -> common_pb2.PassReport:
    """The message of one pass's report."""
    return common_pb2.PassReport(
        tokens=report.num_tokens,
        predicted=len(report.predictions),
        accepted=report.num_accepted,
        source=write_source(report.source),
        waiting=_write_duration(report.waiting),
        verifying=_write_duration(report.verifying),
        host=None if report.host is None else _write_duration(report.host),
        alternates=report.num_alternates,
        rejected=[_write_rejected(token_id, tokenizer) for token_id in report.rejected],
    )


def _write_rejected(token_id: int, tokenizer: Tokenizer) -> common_pb2.RejectedPrediction:
    return common_pb2.RejectedPrediction(
        id=token_id, bytes=tokenizer.token_bytes(token_id), text=tokenizer.token_text(token_id)
    )


def write_speculation(stats: SpeculationStats) -> common_pb2.SpeculationStats:
    """The message of one generation's speculation statistics."""
    predicted = sum(source.offered for source in stats.by_source.values())
    accepted = sum(source.accepted for source in stats.by_source.values())
    histogram = _histogram(stats)
    num_spec_steps = sum(histogram)
    message = common_pb2.SpeculationStats(
        passes=stats.passes,
        predicted=predicted,
        accepted=accepted,
        tokens_per_pass=1 + accepted / stats.passes if stats.passes else 0,
        by_position=[
            common_pb2.PositionAcceptance(offered=offered, accepted=accepted)
            for offered, accepted in zip(stats.offered, stats.accepted, strict=True)
        ],
        alternates=stats.alternates,
        draft_losses=stats.losses,
        draft_returns=stats.returns,
        num_spec_steps=num_spec_steps,
        mean_acceptance_length=1 + sum(stats.accepted) / num_spec_steps if num_spec_steps else 0,
        draft_acceptance_rate=accepted / predicted if predicted else 0,
        acceptance_histogram=histogram,
        by_source=_write_sources(stats),
    )
    if seconds := stats.seconds.taken:
        message.speedup = stats.seconds.plain / seconds
        message.expected_speedup = stats.seconds.expected / seconds
    if stats.vocabulary is not None:
        message.draft_vocabulary = write_vocabulary_match(stats.vocabulary)
    if not predicted and stats.why_not is not None:
        message.no_speculation_reason = _NO_SPECULATION[stats.why_not]
        message.no_speculation_detail = stats.detail
    return message


def _histogram(stats: SpeculationStats) -> list[int]:
    """The number of passes with predictions that accepted 0, 1, ... of them: each position's count less the next's."""
    at_least = [*stats.offered[:1], *(count for count in stats.accepted if count)]
    return [more - less for more, less in pairwise([*at_least, 0])]


def _write_sources(stats: SpeculationStats) -> list[common_pb2.SourceStats]:
    return [
        common_pb2.SourceStats(
            source=write_source(source),
            num_spec_steps=counts.passes,
            predicted=counts.offered,
            accepted=counts.accepted,
        )
        for source, counts in sorted(stats.by_source.items(), key=lambda item: item[0].value)
    ]


def _write_duration(seconds: float) -> Duration:
    """The message of a duration in seconds."""
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration


def write_message(deltas: Iterable[common_pb2.MessageDelta]) -> common_pb2.ChatMessage:
    """The whole message that the deltas make up."""
    message = common_pb2.ChatMessage(role="assistant")
    texts: dict[str, list[str]] = {"reasoning": [], "content": []}
    for delta in deltas:
        match kind := delta.WhichOneof("delta"):
            case "tool_call":
                message.tool_calls.append(delta.tool_call)
            case "reasoning" | "content":
                texts[kind].append(getattr(delta, kind))
    message.content = "".join(texts["content"])
    if texts["reasoning"]:
        message.reasoning_content = "".join(texts["reasoning"])
    return message
