"""Call: one call that the engine works for, all that it holds of the server until it ends, and what it answers."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, aclosing
from dataclasses import replace
from types import TracebackType
from typing import Self

from outrider.v1 import generation_pb2
from services.engine.events import Aborted, Failed, Progress, Refused
from services.engine.request import Request
from services.service.access.caller import Caller
from services.service.admission import Place
from services.service.errors import InvalidRequestError, RequestCancelledError, UnavailableError, Violation
from services.target.api.answers.message_deltas import add_deltas
from services.target.api.generation_request import GenerationRequest
from services.target.api.responses import write_event, write_starts
from services.target.generation.engine import TargetEngine
from services.target.message.message_reader import MessageReader
from services.target.metrics.request_traces import RequestTrace
from services.target.models.served_model import ServedModel
from services.target.models.serving import Serving
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import interleaved


class Call:
    """Its places, its trace and its sequences, all of which end with it, however it ends: a context."""

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
        """A caller's, to the model as it asks for it; `deadline` is in seconds on the monotonic clock, and
        `traceparent` what work for it belongs to.
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
            self._held.enter_context(self.serving.engine.using(self._model.lora))
        if self._trace is not None:
            self._held.enter_context(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, traceback)

    @property
    def model(self) -> ServedModel:
        """The model, with as many samples of one request as this caller may have at best."""
        return replace(self._model, max_samples=min(self._model.max_samples, self.most_sequences))

    @property
    def most_sequences(self) -> int:
        """The most that this caller may have at best."""
        return self.serving.admissions.streams.most(self.caller)

    def admit_sequences(self, count: int) -> None:
        """Let so many in, where a token of a prompt may come in too, before it costs anything.

        Raises OverloadedError.
        """
        admissions = self.serving.admissions
        admissions.waiting_tokens.check(1, self.caller, deadline=self.deadline)
        self._held.enter_context(admissions.streams.admit(count, self.caller))

    def admit_tokens(self, count: int) -> Place:
        """Let so many tokens in that are to be computed first; raises OverloadedError."""
        waiting = self.serving.admissions.waiting_tokens
        return self._held.enter_context(waiting.admit(count, self.caller, deadline=self.deadline))

    async def submit(self, engine: TargetEngine, requests: Seq[Request]) -> list[Sequence]:
        """Begin a generation, or one for each request that shares a prompt with the first; the engine drops what is
        left of them when the call ends. Raises InvalidRequestError for tokens that are not the generation's.
        """
        sequences = await self._begin(engine, requests)
        if self._trace is not None:
            self._trace.follow(requests[0], sequences)
        return sequences

    async def submit_each(self, engine: TargetEngine, requests: Seq[Request]) -> list[Sequence]:
        """Begin one for each request, none of which has anything to do with the others; else as `submit`."""
        sequences = [sequence for request in requests for sequence in await self._begin(engine, [request])]
        if self._trace is not None:
            self._trace.follow(requests[0], sequences)
        return sequences

    async def _begin(self, engine: TargetEngine, requests: Seq[Request]) -> list[Sequence]:
        statistics = self.serving.statistics
        if self._traceparent:
            requests = [replace(request, traceparent=self._traceparent) for request in requests]
        sequences = await _submit(engine, requests)
        statistics.begin(sequences)
        for sequence in reversed(sequences):  # what is held last is let go first
            self._held.callback(statistics.end, sequence)
            self._held.callback(engine.cancel, sequence)
        return sequences


async def _submit(engine: TargetEngine, requests: Seq[Request]) -> list[Sequence]:
    try:
        if requests[0].received:  # which may be long
            outputs = await asyncio.to_thread(engine.prepare, requests, asyncio.get_running_loop())
        else:
            outputs = engine.prepare(requests)
    except ValueError as error:
        raise bad_continuation(str(error)) from error
    return engine.submit(outputs)


def bad_continuation(problem: str) -> InvalidRequestError:
    """The error of tokens to continue from that are not those of the generation."""
    allowed = "the ids that the generation has sent"
    return InvalidRequestError([Violation("continue_from.token_ids", f"{problem}; allowed: {allowed}")])


async def response_stream(
    sequences: list[Sequence],
    serving: Serving,
    model: ServedModel,
    message: GenerationRequest,
    readers: list[MessageReader] | None,
    waiting: Place,
) -> AsyncIterator[generation_pb2.StreamGenerateResponse]:
    """Every message of an answer, as it comes to be; `waiting` is given back as the prompt is computed.

    Raises UnavailableError, RequestCancelledError, and InvalidRequestError for received tokens that are not its own.
    """
    has_started = False
    async with aclosing(interleaved([sequence.stream for sequence in sequences])) as events:
        async for sample, event in events:
            serving.statistics.observe(sequences[sample], event)
            waiting.keep(event.total - event.done if isinstance(event, Progress) else 0)
            if not has_started:  # only once the scheduler has taken it up is it known what is cached
                for response in write_starts(sequences, model, message):
                    yield response
                has_started = True
            if isinstance(event, Failed):
                raise UnavailableError(event.message)
            if isinstance(event, Aborted):
                raise RequestCancelledError(event.message)
            if isinstance(event, Refused):
                raise bad_continuation(event.message)
            for response in write_event(event, sequences[sample].request, model.tokenizer):
                response.sample = sample
                if readers is not None:
                    add_deltas(response, readers[sample])
                yield response


async def message_readers(
    message: GenerationRequest, request: Request, model: ServedModel
) -> list[MessageReader] | None:
    """What reads each sample's answer as a message, if that is asked for; what was received may be long."""
    if not message.output.message_deltas:
        return None
    first = await asyncio.to_thread(MessageReader, request, model.tokenizer, model.syntax)
    return [first, *(MessageReader(request, model.tokenizer, model.syntax) for _ in range(1, request.num_samples))]
