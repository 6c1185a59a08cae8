"""Answers: writes the events of a generation as the contract's."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from outrider.v1 import common_pb2, generation_pb2
from services.service.errors import (
    InternalError,
    InvalidRequestError,
    OverloadedError,
    RangeError,
    RequestCancelledError,
    RpcError,
    SubscriberLostError,
    UnavailableError,
)
from services.target.models.served_model import ServedModel
from services.target.openengine.request import in_words
from services.target.openengine.v1 import openengine_pb2

_STOP, _LENGTH = openengine_pb2.FINISH_REASON_STOP, openengine_pb2.FINISH_REASON_LENGTH
_CANCELLED = openengine_pb2.FINISH_REASON_CANCELLED
_REASONS = {
    common_pb2.FINISH_REASON_STOP_TOKEN: _STOP,
    common_pb2.FINISH_REASON_STOP_STRING: _STOP,
    common_pb2.FINISH_REASON_NO_CANDIDATES: _STOP,  # mostly because a grammar is at its end
    common_pb2.FINISH_REASON_LOOP: _STOP,
    common_pb2.FINISH_REASON_MAX_TOKENS: _LENGTH,
    common_pb2.FINISH_REASON_CONTEXT_LENGTH: _LENGTH,
    common_pb2.FINISH_REASON_GRAMMAR_INCOMPLETE: _LENGTH,
    common_pb2.FINISH_REASON_TIME_LIMIT: _LENGTH,
    common_pb2.FINISH_REASON_DEADLINE: _CANCELLED,
}
_PREFIX = "FINISH_REASON_"
_Answers = Iterator[openengine_pb2.GenerateResponse]


class _Failure(NamedTuple):
    code: "openengine_pb2.ErrorCode.ValueType"
    retryable: bool


_FAILURES = {
    InvalidRequestError: _Failure(openengine_pb2.ERROR_CODE_INVALID_ARGUMENT, retryable=False),
    RangeError: _Failure(openengine_pb2.ERROR_CODE_INVALID_ARGUMENT, retryable=False),
    SubscriberLostError: _Failure(openengine_pb2.ERROR_CODE_INTERNAL, retryable=True),
    OverloadedError: _Failure(openengine_pb2.ERROR_CODE_OVERLOADED, retryable=True),
    RequestCancelledError: _Failure(openengine_pb2.ERROR_CODE_CANCELLED, retryable=False),
    UnavailableError: _Failure(openengine_pb2.ERROR_CODE_INTERNAL, retryable=True),  # the contract has no better one
}


def write_error(error: RpcError) -> openengine_pb2.EngineError:
    """A failure after a call was accepted."""
    kinds = (failure for kind, failure in _FAILURES.items() if isinstance(error, kind))
    code, retryable = next(kinds, _Failure(openengine_pb2.ERROR_CODE_INTERNAL, retryable=False))
    return openengine_pb2.EngineError(code=code, message=str(error), retryable=retryable)


class Answers:
    """The answers to one request, as they come."""

    def __init__(
        self,
        request: openengine_pb2.GenerateRequest,
        message: generation_pb2.StreamGenerateRequest,
        model: ServedModel,
    ) -> None:
        """`message` is the request for the generation service."""
        wanted = request.response
        self._num_top, self._num_prompt_top = wanted.output_candidates.top_n, wanted.prompt_candidates.top_n
        self._has_logprobs, self._has_prompt = message.output.logprobs, message.output.prompt_logprobs
        self._prompt_start = wanted.prompt_logprob_start
        self._stop_ids = {*message.stop.token_ids}
        self._token_text = model.tokenizer.token_text
        self._request_id = request.request_id
        self._usage = openengine_pb2.Usage(cached_prompt_tokens=0, reasoning_tokens=0)
        self._running = {*range(message.num_samples)}
        self._prompt_records: list[common_pb2.TokenRecord] = []

    @property
    def may_be_long(self) -> bool:
        """Whether a message may have log-probabilities for many tokens."""
        return self._has_logprobs or self._has_prompt

    def read(self, response: generation_pb2.StreamGenerateResponse) -> _Answers:
        """The messages of an event; raises InternalError for logits that are no numbers."""
        match response.WhichOneof("event"):
            case "started" if response.sample == 0:
                self._request_id = response.started.request_id
                self._usage.prompt_tokens = response.started.prompt_tokens
                self._usage.cached_prompt_tokens = response.started.cached_tokens
            case "prefill":
                self._prompt_records += response.prefill.records
            case "chunk":
                yield from self._write_prompt(response.sample)
                yield from self._write_tokens(response.sample, response.chunk)
            case "finished":
                yield from self._write_prompt(response.sample)
                yield from self._write_end(response.sample, response.finished)

    def abort(self) -> _Answers:
        """The ends of all samples that have not ended."""
        for index in sorted(self._running):
            yield self._end(index, openengine_pb2.GenerationFinished(reason=_CANCELLED, message="aborted"))

    def fail(self, error: RpcError) -> _Answers:
        """The end of all samples by a failure."""
        if isinstance(error, InvalidRequestError):
            error = in_words(error)
        yield openengine_pb2.GenerateResponse(
            request_id=self._request_id, error=write_error(error), usage=self._whole_usage()
        )

    def _write_prompt(self, index: int) -> _Answers:
        """The tokens of the prompt, which are all there before the first answer's tokens."""
        if index == 0 and (records := self._prompt_records):
            self._prompt_records = []
            tokens = [_write_record(each, self._num_prompt_top) for each in records[self._prompt_start :]]
            prompt = openengine_pb2.PromptOutput(tokens=tokens)
            yield openengine_pb2.GenerateResponse(request_id=self._request_id, prompt=prompt)

    def _write_tokens(self, index: int, chunk: generation_pb2.Chunk) -> _Answers:
        if not (chunk.token_ids or chunk.text):
            return
        self._usage.completion_tokens += len(chunk.token_ids)
        if self._has_logprobs:
            tokens = [_write_record(each, self._num_top) for each in chunk.records]
        else:
            tokens = [
                openengine_pb2.TokenInfo(token_id=token_id, token=self._token_text(token_id))
                for token_id in chunk.token_ids
            ]
        yield self._write_token(index, tokens, chunk.text)

    def _write_token(
        self, index: int, tokens: Iterable[openengine_pb2.TokenInfo], text: str
    ) -> openengine_pb2.GenerateResponse:
        token = openengine_pb2.TokenOutput(output_index=index, tokens=tokens, text=text)
        return openengine_pb2.GenerateResponse(request_id=self._request_id, token=token)

    def _write_end(self, index: int, finished: generation_pb2.Finished) -> _Answers:
        if finished.reason == common_pb2.FINISH_REASON_INVALID_LOGITS:
            raise InternalError("the model's logits were no numbers")
        if finished.text:
            yield self._write_token(index, (), finished.text)
        if index == 0:
            self._usage.cached_prompt_tokens = finished.usage.cached_tokens
        self._usage.reasoning_tokens += finished.usage.reasoning_tokens
        words = common_pb2.FinishReason.Name(finished.reason).removeprefix(_PREFIX).lower()
        end = openengine_pb2.GenerationFinished(reason=_REASONS[finished.reason], message=words)
        if finished.HasField("stop_string"):
            end.stop_match.stop_text = finished.stop_string
        elif finished.HasField("stop_token_id"):
            is_callers = finished.stop_token_id in self._stop_ids
            setattr(end.stop_match, "stop_token_id" if is_callers else "eos_token_id", finished.stop_token_id)
        yield self._end(index, end)

    def _end(self, index: int, end: openengine_pb2.GenerationFinished) -> openengine_pb2.GenerateResponse:
        self._running.remove(index)
        end.output_index = index
        response = openengine_pb2.GenerateResponse(request_id=self._request_id, finished=end)
        if not self._running:
            response.usage.CopyFrom(self._whole_usage())
        return response

    def _whole_usage(self) -> openengine_pb2.Usage:
        usage = self._usage  # a continuation's tokens were counted before, those of its reasoning and its cache too
        usage.reasoning_tokens = min(usage.reasoning_tokens, usage.completion_tokens)
        usage.cached_prompt_tokens = min(usage.cached_prompt_tokens, usage.prompt_tokens)
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens
        return usage


def _write_record(record: common_pb2.TokenRecord, num_top: int) -> openengine_pb2.TokenInfo:
    """A token with the model's own log-probability, and so many candidates."""
    return openengine_pb2.TokenInfo(
        token_id=record.id,
        token=record.text,
        logprob=record.raw_logprob if record.HasField("raw_logprob") else None,
        rank=record.rank if record.HasField("rank") else None,
        candidates=[
            openengine_pb2.LogProb(token_id=each.id, logprob=each.raw_logprob, token=each.text)
            for each in record.candidates[:num_top]
        ],
    )
