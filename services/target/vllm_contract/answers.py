"""Answers: writes the events of a generation as the contract's chunks and ends."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2, generation_pb2
from services.service.errors import RpcError

_ABORTED = "abort"
_REASONS = {
    common_pb2.FINISH_REASON_STOP_TOKEN: "stop",
    common_pb2.FINISH_REASON_STOP_STRING: "stop",
    common_pb2.FINISH_REASON_MAX_TOKENS: "length",
    common_pb2.FINISH_REASON_CONTEXT_LENGTH: "length",
    common_pb2.FINISH_REASON_DEADLINE: _ABORTED,
    common_pb2.FINISH_REASON_NO_CANDIDATES: "stop",  # mostly because a grammar is at its end
    common_pb2.FINISH_REASON_GRAMMAR_INCOMPLETE: "length",
    common_pb2.FINISH_REASON_INVALID_LOGITS: "error",
}
_Answers = Iterator[vllm_engine_pb2.GenerateResponse]
_Records = Iterable[common_pb2.TokenRecord]


@dataclass(slots=True)
class _Sample:
    """The state of one sample."""

    ids: list[int] = field(default_factory=list)
    records: list[common_pb2.TokenRecord] = field(default_factory=list)  # not sent yet
    has_begun: bool = False  # whether a message of it was sent
    has_ended: bool = False


class Answers:
    """The answers to one request: chunks as they come if it wants a stream, and one end for each sample.

    Without a stream the ends come in the order of the samples: SMG takes the first end for the first sample's.
    """

    def __init__(self, request: vllm_engine_pb2.GenerateRequest, num_samples: int) -> None:
        params = request.sampling_params
        self._streams = request.stream
        self._has_logprobs, self._num_top = params.HasField("logprobs"), params.logprobs
        self._has_prompt_logprobs, self._num_prompt_top = params.HasField("prompt_logprobs"), params.prompt_logprobs
        self._stop_token_ids = {*params.stop_token_ids}
        self._samples = [_Sample() for _ in range(num_samples)]
        self._ends: dict[int, vllm_engine_pb2.GenerateResponse] = {}  # waiting for the ends before them
        self._num_sent = 0
        self._num_prompt, self._num_cached = len(request.tokenized.input_ids), 0
        self._prompt_records: list[common_pb2.TokenRecord] = []

    @property
    def may_be_long(self) -> bool:
        """Whether a message may have log-probabilities for many tokens."""
        return self._has_logprobs or self._has_prompt_logprobs

    def read(self, response: generation_pb2.StreamGenerateResponse) -> _Answers:
        """The messages of an event."""
        sample = self._samples[response.sample]
        match response.WhichOneof("event"):
            case "started":
                self._num_prompt = response.started.prompt_tokens
                self._num_cached = response.started.cached_tokens
            case "prefill":
                self._prompt_records += response.prefill.records
            case "chunk":
                sample.ids += response.chunk.token_ids
                sample.records += response.chunk.records
                if self._streams and response.chunk.token_ids:
                    yield self._write_chunk(response.sample, sample, [*response.chunk.token_ids])
            case "finished":
                yield from self._in_order(response.sample, self._write_end(response.sample, sample, response.finished))

    def abort(self) -> _Answers:
        """The ends of all samples that have not ended."""
        for index, sample in enumerate(self._samples):
            if not sample.has_ended:
                yield from self._in_order(index, self._new_end(index, sample, _ABORTED))

    def fail(self, error: RpcError) -> _Answers:
        """Raise the error: the contract has no message for it."""
        raise error

    def _in_order(self, index: int, end: vllm_engine_pb2.GenerateComplete) -> _Answers:
        """An end, and those that waited for it; nothing if it must wait itself."""
        response = vllm_engine_pb2.GenerateResponse(complete=end)
        if self._streams:
            yield response
            return
        self._ends[index] = response
        while self._num_sent in self._ends:
            yield self._ends.pop(self._num_sent)
            self._num_sent += 1

    def _write_chunk(self, index: int, sample: _Sample, ids: list[int]) -> vllm_engine_pb2.GenerateResponse:
        chunk = vllm_engine_pb2.GenerateStreamChunk(
            token_ids=ids,
            prompt_tokens=self._num_prompt,
            completion_tokens=len(ids),
            cached_tokens=self._num_cached,
            index=index,
        )
        self._add_logprobs(chunk, sample)
        return vllm_engine_pb2.GenerateResponse(chunk=chunk)

    def _write_end(
        self, index: int, sample: _Sample, finished: generation_pb2.Finished
    ) -> vllm_engine_pb2.GenerateComplete:
        end = self._new_end(index, sample, _REASONS[finished.reason])
        end.cached_tokens = finished.usage.cached_tokens
        end.spec_accepted_tokens = finished.speculation.accepted
        end.spec_draft_tokens = finished.speculation.predicted
        if finished.HasField("stop_string"):
            end.matched_stop_str = finished.stop_string
        elif finished.HasField("stop_token_id") and finished.stop_token_id in self._stop_token_ids:
            # Not for the model's own stop tokens, which the request did not set.
            end.matched_token_id = finished.stop_token_id
        return end

    def _new_end(self, index: int, sample: _Sample, reason: str) -> vllm_engine_pb2.GenerateComplete:
        sample.has_ended = True
        end = vllm_engine_pb2.GenerateComplete(
            output_ids=sample.ids,
            finish_reason=reason,
            prompt_tokens=self._num_prompt,
            completion_tokens=len(sample.ids),
            cached_tokens=self._num_cached,
            index=index,
        )
        self._add_logprobs(end, sample)
        return end

    def _add_logprobs(
        self, message: vllm_engine_pb2.GenerateStreamChunk | vllm_engine_pb2.GenerateComplete, sample: _Sample
    ) -> None:
        """Add the prompt's log-probabilities to a sample's first message, and those of new tokens to any message."""
        if self._has_prompt_logprobs and not sample.has_begun and self._prompt_records:
            message.input_logprobs.CopyFrom(_write_input_logprobs(self._prompt_records, self._num_prompt_top))
        sample.has_begun = True
        if self._has_logprobs and sample.records:
            message.output_logprobs.CopyFrom(_write_output_logprobs(sample.records, self._num_top))
        sample.records = []


def _write_output_logprobs(records: _Records, num_top: int) -> vllm_engine_pb2.OutputLogProbs:
    """The model's own log-probabilities of generated tokens, and `num_top` candidates for each."""
    logprobs = vllm_engine_pb2.OutputLogProbs()
    for record in records:
        logprobs.token_ids.append(record.id)
        logprobs.token_logprobs.append(record.raw_logprob)
        if num_top:
            logprobs.top_logprobs.append(_write_top(record, num_top))
    return logprobs


def _write_input_logprobs(records: _Records, num_top: int) -> vllm_engine_pb2.InputLogProbs:
    """The log-probabilities of the prompt's tokens; the first token has none."""
    logprobs = vllm_engine_pb2.InputLogProbs()
    for record in records:
        value = record.raw_logprob if record.HasField("raw_logprob") else None
        logprobs.token_ids.append(record.id)
        logprobs.token_logprobs.add(value=value)
        if num_top:
            logprobs.top_logprobs.append(_write_top(record, num_top))
    return logprobs


def _write_top(record: common_pb2.TokenRecord, num_top: int) -> vllm_engine_pb2.TopLogProbs:
    candidates = record.candidates[:num_top]
    return vllm_engine_pb2.TopLogProbs(
        values=[candidate.raw_logprob for candidate in candidates],
        token_ids=[candidate.id for candidate in candidates],
    )
