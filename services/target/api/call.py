"""Call: one call that the engine computes for, the server resources that it holds, and its answer."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, aclosing
from dataclasses import replace
from types import TracebackType
from typing import Self

from outrider.v1 import generation_pb2
from services.engine.events import Aborted, Failed, Finished, Progress, Refused, Scheduled
from services.engine.request import Request
from services.engine.request_digest import request_digest
from services.service.access.caller import Caller
from services.service.admission import Reservation
from services.service.errors import InvalidRequestError, RequestCancelledError, UnavailableError, Violation
from services.target.api.answer_reader import AnswerReader
from services.target.api.request_messages import GenerationRequest
from services.target.api.responses import write_event, write_starts
from services.target.generation.engine_interface import Engine
from services.target.metrics.request_traces import RequestTrace
from services.target.models.served_model import ServedModel
from services.target.models.serving import Serving
from services.target.sequence.continuation_error import ContinuationError
from services.target.sequence.generation import Generation
from services.target.sequence.token_stream import interleaved


class Call:
    """A context that holds the call's reservations, its trace and its sequences, and releases them when it ends."""

    def __init__(
        self,
        serving: Serving,
        model: ServedModel,
        caller: Caller,
        *,
        deadline: float | None,
        traceparent: str,
        trace: RequestTrace | None,
    ) -> None:
        """`model` is the model with the requested name and adapter, `deadline` in seconds on the monotonic clock, and
        `traceparent` the parent of spans for this call.
        """
        self.serving = serving
        self._model = model
        self.caller = caller
        self.deadline = deadline
        self._traceparent = traceparent
        self._trace = trace
        self._held = ExitStack()

    def __enter__(self) -> Self:
        if self._model.lora is not None:
            self._held.enter_context(self.serving.engine.adapters.using(self._model.lora))
        if self._trace is not None:
            self._held.enter_context(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, traceback)

    @property
    def model(self) -> ServedModel:
        """The model, whose samples of one request are limited to this caller's sequences."""
        return replace(self._model, max_samples=min(self._model.max_samples, self.most_sequences))

    @property
    def most_sequences(self) -> int:
        """The most sequences that this caller may have."""
        return self.serving.admissions.streams.limit_for(self.caller)

    def admit_sequences(self, count: int) -> None:
        """Admit so many sequences, if a prompt token can be admitted too, before any work is done.

        Raises OverloadedError.
        """
        admissions = self.serving.admissions
        admissions.waiting_tokens.check(1, self.caller, deadline=self.deadline)
        self._held.enter_context(admissions.streams.admit(count, self.caller))

    def admit_tokens(self, count: int) -> Reservation:
        """Admit so many tokens that must be computed before the first draw; raises OverloadedError."""
        waiting = self.serving.admissions.waiting_tokens
        return self._held.enter_context(waiting.admit(count, self.caller, deadline=self.deadline))

    async def submit(self, engine: Engine, requests: Seq[Request]) -> list[Generation]:
        """Begin a generation for each of the requests, which share the first one's prompt.

        The engine drops those that still run when the call ends. Raises InvalidRequestError for received tokens that
        are not the generation's.
        """
        generations = await self._begin(engine, requests)
        if self._trace is not None:
            self._trace.follow(requests[0], generations)
        return generations

    async def submit_each(self, engine: Engine, requests: Seq[Request]) -> list[Generation]:
        """Begin a generation for each of the requests, which are unrelated; otherwise as `submit`."""
        generations = [generation for request in requests for generation in await self._begin(engine, [request])]
        if self._trace is not None:
            self._trace.follow(requests[0], generations)
        return generations

    async def _begin(self, engine: Engine, requests: Seq[Request]) -> list[Generation]:
        statistics = self.serving.statistics
        if self._traceparent:
            requests = [replace(request, traceparent=self._traceparent) for request in requests]
        generations = await _submit(engine, requests)
        statistics.begin(generations)
        for generation in reversed(generations):  # the stack releases the last one first
            self._held.callback(statistics.end, generation)
            self._held.callback(engine.cancel, generation.number)
        return generations


async def _submit(engine: Engine, requests: Seq[Request]) -> list[Generation]:
    try:
        return await engine.submit(requests)
    except ContinuationError as error:
        raise bad_continuation(str(error)) from error


def bad_continuation(problem: str) -> InvalidRequestError:
    """The error for tokens to continue from that are not the generation's."""
    allowed = "the ids that the generation has sent"
    return InvalidRequestError([Violation("continue_from.token_ids", f"{problem}; allowed: {allowed}")])


async def response_stream(
    generations: Seq[Generation],
    serving: Serving,
    model: ServedModel,
    message: GenerationRequest,
    readers: list[AnswerReader] | None,
    waiting: Reservation,
) -> AsyncIterator[generation_pb2.StreamGenerateResponse]:
    """Every message of an answer, as soon as it is known; `waiting` is released as the prompt is computed.

    Raises UnavailableError, RequestCancelledError, and InvalidRequestError for received tokens that are not the
    generation's.
    """
    has_started = False
    digest = await asyncio.to_thread(request_digest, generations[0].request)  # while the engine computes the prompt
    async with aclosing(interleaved(generations)) as events:
        async for sample, event in events:
            serving.statistics.observe(generations[sample], event)
            if not isinstance(event, Scheduled):
                waiting.keep(event.total - event.done if isinstance(event, Progress) else 0)
            if not has_started:  # the number of cached tokens is known once the scheduler has taken the sequence up
                for response in write_starts(generations, model, message, digest):
                    yield response
                has_started = True
            if isinstance(event, Failed):
                raise UnavailableError(event.message)
            if isinstance(event, Aborted):
                raise RequestCancelledError(event.message)
            if isinstance(event, Refused):
                raise bad_continuation(event.message)
            for response in write_event(event, generations[sample].request, model.tokenizer):
                response.sample = sample
                if isinstance(event, Finished):
                    proof = response.finished.proof
                    proof.fingerprint, proof.request_digest = model.fingerprint.digest, digest
                    proof.seed = generations[sample].request.sampling.seed
                if readers is not None:
                    readers[sample].complete(response)
                yield response
