"""Answers: the events of a generation as the contract's chunks and ends."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2, generation_pb2
from services.target.vllm_contract.logprobs import write_input_logprobs, write_output_logprobs

_ABORTED = "abort"
_REASONS = {
    common_pb2.FINISH_REASON_STOP_TOKEN: "stop",
    common_pb2.FINISH_REASON_STOP_STRING: "stop",
    common_pb2.FINISH_REASON_MAX_TOKENS: "length",
    common_pb2.FINISH_REASON_CONTEXT_LENGTH: "length",
    common_pb2.FINISH_REASON_DEADLINE: _ABORTED,
    common_pb2.FINISH_REASON_NO_CANDIDATES: "stop",  # mostly since a grammar has come to its end
    common_pb2.FINISH_REASON_INVALID_LOGITS: "error",
}
_Answers = Iterator[vllm_engine_pb2.GenerateResponse]


@dataclass(slots=True)
class _Sample:
    """What has come of one sample."""

    ids: list[int] = field(default_factory=list)
    records: list[common_pb2.TokenRecord] = field(default_factory=list)  # that no message has told
    has_begun: bool = False  # to be told
    has_ended: bool = False


class Answers:
    """Of one request: chunks as they come if it wants a stream, and one end for each sample.

    Without a stream the ends come in the order of the samples: SMG takes the first that comes for the first sample's.
    """

    def __init__(self, request: vllm_engine_pb2.GenerateRequest, num_samples: int) -> None:
        params = request.sampling_params
        self._streams = request.stream
        self._tells, self._num_top = params.HasField("logprobs"), params.logprobs
        self._tells_prompt, self._num_prompt_top = params.HasField("prompt_logprobs"), params.prompt_logprobs
        self._stop_token_ids = {*params.stop_token_ids}
        self._samples = [_Sample() for _ in range(num_samples)]
        self._ends: dict[int, vllm_engine_pb2.GenerateResponse] = {}  # that wait for those before them
        self._num_told = 0
        self._num_prompt, self._num_cached = len(request.tokenized.input_ids), 0
        self._prompt_records: list[common_pb2.TokenRecord] = []

    @property
    def may_be_long(self) -> bool:
        """Whether one message may hold a lot for each of many tokens."""
        return self._tells or self._tells_prompt

    def read(self, response: generation_pb2.StreamGenerateResponse) -> _Answers:
        """What an event is to be told by."""
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
        """The ends of all samples that have none."""
        for index, sample in enumerate(self._samples):
            if not sample.has_ended:
                yield from self._in_order(index, self._new_end(index, sample, _ABORTED))

    def _in_order(self, index: int, end: vllm_engine_pb2.GenerateComplete) -> _Answers:
        """An end, and those that have waited for it, unless it has to wait itself."""
        response = vllm_engine_pb2.GenerateResponse(complete=end)
        if self._streams:
            yield response
            return
        self._ends[index] = response
        while self._num_told in self._ends:
            yield self._ends.pop(self._num_told)
            self._num_told += 1

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
            # One of the model's own is none that was asked for.
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
        """Of the prompt with the first message of a sample, of tokens with the first that could have them."""
        if self._tells_prompt and not sample.has_begun and self._prompt_records:
            message.input_logprobs.CopyFrom(write_input_logprobs(self._prompt_records, self._num_prompt_top))
        sample.has_begun = True
        if self._tells and sample.records:
            message.output_logprobs.CopyFrom(write_output_logprobs(sample.records, self._num_top))
        sample.records = []
