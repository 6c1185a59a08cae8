"""GenerationServicer: the generation service's RPCs, each a few steps between messages and the engine."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

from grpc import aio

from outrider.v1 import generation_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceServicer
from services.service.access.caller import Callers
from services.service.errors import ReaderStalledError, RpcError, UnavailableError
from services.service.limits import MAX_EMBEDDED_TEXTS
from services.service.validation import Violations
from services.target.api.answer_reader import answer_readers
from services.target.api.best_of import best_of
from services.target.api.call import Call, response_stream
from services.target.api.embedding import read_embed_request, write_embeddings
from services.target.api.model_info import write_model_info, write_models
from services.target.api.prompts import (
    detokenize,
    read_expected,
    read_guidance,
    read_prompt,
    read_tokenize_input,
    write_tokens,
)
from services.target.api.request_messages import GenerationRequest
from services.target.api.requests import is_ranked, num_generated, read_request, read_request_grammar
from services.target.api.responses import write_whole
from services.target.api.scoring import read_score_request, write_scores
from services.target.api.sessions import (
    begin_session,
    compute_session,
    delete_session,
    get_session,
    list_sessions,
    num_held,
    used_session,
    write_session,
)
from services.target.api.stream_writer import StreamWriter
from services.target.metrics.request_statistics import identity
from services.target.metrics.request_traces import RequestTraces
from services.target.models.serving import Serving
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels
from services.telemetry.load_report import ASKED_BY, TRAILER
from services.telemetry.trace_context import TRACEPARENT, read_traceparent

logger = logging.getLogger(__name__)

Responses = AsyncIterator[generation_pb2.StreamGenerateResponse]
Context = aio.ServicerContext[Any, Any]
_MARGIN_SECONDS = 0.1  # before a call's deadline, for the last messages to reach the client
_MARGIN_FRACTION = 0.1  # of the call's time, where that is less


class GenerationServicer(GenerationServiceServicer):
    """Answers requests with the models that they name, or with UNAVAILABLE before these are loaded and while `refuse`
    has a reason.
    """

    def __init__(
        self,
        callers: Callers,
        models: TargetModels,
        *,
        traces: RequestTraces | None = None,
        load_reports: bool = False,
        reader_timeout: float,
    ) -> None:
        """A stream is ended after `reader_timeout` seconds in which its reader has taken nothing. With `load_reports`
        the trailers of every answer report the load.
        """
        self.callers, self._models, self._traces = callers, models, traces
        self._load_reports, self.reader_timeout = load_reports, reader_timeout
        self._refusal = ""

    def refuse(self, reason: str) -> None:
        """Refuse new requests from now on for this reason; an empty reason accepts them again."""
        self._refusal = reason

    def check(self, context: Context) -> None:
        """Raise the error of a call that no model can admit now, before its request is even read."""
        self.check_open()
        caller, deadline, refusal = self.callers.of(context), _deadline(context), None
        for model in self._models.all:
            try:
                model.admissions.waiting_tokens.check(1, caller, deadline=deadline)
                model.admissions.streams.check(1, caller)
            except RpcError as error:
                refusal = refusal or error
            else:
                return
        assert refusal is not None
        raise refusal

    async def StreamGenerate(  # type: ignore[override]  # it writes to the context, so that a cut is seen here
        self, request: generation_pb2.StreamGenerateRequest, context: Context
    ) -> None:
        """Write the headers once the request is admitted, then `started`, `prefill`, `chunk` and `finished` messages,
        each as soon as it is known.
        """
        async with self.writer(context) as writer, self.generation(request, context) as responses:
            await writer.write_headers()
            async for response in responses:
                await writer.write(response)

    def writer(self, context: Context) -> StreamWriter:
        """The writer of a call's stream."""
        return StreamWriter(context, self.reader_timeout)

    async def Generate(
        self, request: generation_pb2.GenerateRequest, context: Context
    ) -> generation_pb2.GenerateResponse:
        """Return the whole generation."""
        async with self.generation(request, context) as responses:
            events = [response async for response in responses]
            return await asyncio.to_thread(write_whole, events, as_message=request.output.message_deltas)

    async def Score(self, request: generation_pb2.ScoreRequest, context: Context) -> generation_pb2.ScoreResponse:
        """Return how likely each of the texts is after the prompt."""
        with await self._call(request.model, context, "score", request.lora) as call:
            model = call.model
            call.admit_sequences(max(1, min(len(request.choices), model.max_samples)))
            requests = await read_score_request(request, model, caller=call.caller, deadline=call.deadline)
            call.admit_tokens(sum(each.num_scored or 0 for each in requests) + requests[0].num_shared)
            engine = self.serving(request.model).engine  # the model may be unloaded while the texts are encoded
            generations = await call.submit(engine, requests)
            scores = await write_scores(generations, model, call.serving.statistics.observe)
            self._send_load(call.serving, context)
            return scores

    async def Embed(self, request: generation_pb2.EmbedRequest, context: Context) -> generation_pb2.EmbedResponse:
        """Return a vector for each of the texts."""
        with await self._call(request.model, context, "embeddings", request.lora) as call:
            model, most = call.model, min(MAX_EMBEDDED_TEXTS, call.most_sequences)
            call.admit_sequences(max(1, min(len(request.inputs), most)))
            requests = await read_embed_request(
                request, model, most_texts=most, caller=call.caller, deadline=call.deadline
            )
            call.admit_tokens(sum(len(each.prompt) for each in requests))
            engine = self.serving(request.model).engine  # the model may be unloaded while the texts are encoded
            generations = await call.submit_each(engine, requests)
            embeddings = await write_embeddings(request, generations, model, call.serving.statistics.observe)
            self._send_load(call.serving, context)
            return embeddings

    async def CreateSession(
        self, request: generation_pb2.CreateSessionRequest, context: Context
    ) -> generation_pb2.CreateSessionResponse:
        """Compute a common prefix of prompts, and pin its KV blocks."""
        with await self._call(request.model, context, "session") as call:
            call.admit_sequences(1)
            session, asked = await begin_session(request, call)
            await compute_session(session, asked, call)
            written = write_session(session, call.serving, token_ids=request.token_ids)
            return generation_pb2.CreateSessionResponse(session=written)

    async def GetSession(
        self, request: generation_pb2.GetSessionRequest, context: Context
    ) -> generation_pb2.GetSessionResponse:
        """Return one of the caller's sessions."""
        return get_session(request, await self.enter(context, request.model), self.callers.of(context))

    async def ListSessions(
        self, request: generation_pb2.ListSessionsRequest, context: Context
    ) -> generation_pb2.ListSessionsResponse:
        """List the caller's sessions."""
        return list_sessions(await self.enter(context, request.model), self.callers.of(context))

    async def DeleteSession(
        self, request: generation_pb2.DeleteSessionRequest, context: Context
    ) -> generation_pb2.DeleteSessionResponse:
        """End one of the caller's sessions."""
        return delete_session(request, await self.enter(context, request.model), self.callers.of(context))

    async def Tokenize(
        self, request: generation_pb2.TokenizeRequest, context: Context
    ) -> generation_pb2.TokenizeResponse:
        """Encode a text or a conversation to token ids."""
        serving = await self.enter(context, request.model)
        with serving.admissions.text_calls.admit(1, self.callers.of(context)):
            ids = await read_tokenize_input(request, serving.model)
            return await asyncio.to_thread(write_tokens, ids, serving.model.tokenizer)

    async def Detokenize(
        self, request: generation_pb2.DetokenizeRequest, context: Context
    ) -> generation_pb2.DetokenizeResponse:
        """Decode token ids to text."""
        serving = await self.enter(context, request.model)
        with serving.admissions.text_calls.admit(1, self.callers.of(context)):
            return await asyncio.to_thread(detokenize, request, serving.model)

    async def GetModelInfo(
        self, request: generation_pb2.GetModelInfoRequest, context: Context
    ) -> generation_pb2.GetModelInfoResponse:
        """Describe a model; if it was loaded before, it need not be loaded now."""
        self.check_open()
        model = self._find(request.model)
        described = model.description or (await self.enter(context, request.model)).model.describe()
        return await write_model_info(model, described)

    async def ListModels(
        self, request: generation_pb2.ListModelsRequest, context: Context
    ) -> generation_pb2.ListModelsResponse:
        """List all models."""
        self.check_open()
        return await write_models(self._models)

    @asynccontextmanager
    async def generation(self, message: GenerationRequest, context: Context) -> AsyncIterator[Responses]:
        """Admit, read and submit one request; when the call ends, the engine drops the sequences that still run."""
        operation = "chat" if message.prompt.HasField("chat") else "text_completion"
        with await self._call(message.model, context, operation, message.lora) as call:
            model = call.model
            call.admit_sequences(min(num_generated(message), model.max_samples))
            found = Violations()
            session = used_session(message, call.serving, call.caller, found) if message.HasField("session") else None
            prompt = await read_prompt(message.prompt, model, found, session_tokens=session.tokens if session else ())
            guidance = await read_guidance(message, prompt, model, found) if message.HasField("guidance") else None
            beside = len(guidance.negative_prompt) if guidance else 0
            waiting = call.admit_tokens(len(prompt) - (num_held(session) if session else 0) + beside)
            grammar = await read_request_grammar(message, prompt, model, found, caller=call.caller.name)
            expected = await read_expected(message.speculation, model, found)
            read = partial(read_request, message, prompt, grammar, model, found, guidance=guidance, expected=expected)
            request = await asyncio.to_thread(read, caller=call.caller, deadline=call.deadline, session=session)
            is_read = message.output.message_deltas or model.syntax.reasoning is not None
            readers = await answer_readers(message, request, model) if is_read else None
            engine = self.serving(message.model).engine  # the model may be unloaded while the prompt is encoded
            generations = await call.submit(engine, request.samples)
            try:
                responses = response_stream(generations, call.serving, model, message, readers, waiting)
                yield best_of(responses, message) if is_ranked(message) else responses
                self._send_load(call.serving, context)
            except ReaderStalledError as error:
                text = "request %s: its reader took nothing for %g s; it is ended"
                logger.warning(text, request.request_id, error.seconds, extra=identity(request))
                raise

    async def _call(self, name: str, context: Context, operation: str, lora: str = "") -> Call:
        """A call that needs the engine; raises the errors of `enter` and of `ServedModel.asked`."""
        serving, caller, traceparent = await self.enter(context, name), self.callers.of(context), _traceparent(context)
        model = serving.model.asked(name, lora) if name or lora else serving.model
        trace = None
        if self._traces is not None:
            trace = self._traces.begin(traceparent, operation=operation, model=model.name)
            traceparent = trace.traceparent
        return Call(serving, model, caller, deadline=_deadline(context), traceparent=traceparent, trace=trace)

    def _send_load(self, serving: Serving, context: Context) -> None:
        """Report the load in the call's trailers, if that is configured or requested."""
        is_asked = self._load_reports or any(key == ASKED_BY for key, _ in context.invocation_metadata() or ())
        if is_asked:
            context.set_trailing_metadata(((TRAILER, serving.load.report()),))

    async def enter(self, context: Context, name: str = "") -> Serving:
        """The serving of the named model, without a name of the first one; it is loaded if necessary.

        Nothing may be awaited between this and the call's admission. Raises InvalidRequestError for a name that no
        model has, UnavailableError and OverloadedError.
        """
        self.check_open()
        return await self._models.residency.enter(self._find(name), self.callers.of(context))

    def serving(self, name: str = "") -> Serving:
        """As `enter`, but does not load the model: raises UnavailableError if it is not loaded, InvalidRequestError."""
        self.check_open()
        if (serving := (model := self._find(name)).serving) is None:
            raise UnavailableError(f"{model.name!r} is not loaded")
        return serving

    def check_open(self) -> None:
        """Raise UnavailableError if nothing is served now."""
        if self._refusal:
            raise UnavailableError(self._refusal)
        self._models.residency.check_open()

    def _find(self, name: str) -> TargetModel:
        return self._models.find(name) if name else self._models.first


def _deadline(context: Context) -> float | None:
    """When to end a generation so that its last messages arrive before the call's deadline."""
    remaining = cast(float | None, context.time_remaining())  # the type stub forgets calls without a deadline
    if remaining is None:
        return None
    return time.monotonic() + remaining - min(_MARGIN_SECONDS, _MARGIN_FRACTION * remaining)


def _traceparent(context: Context) -> str:
    """The traceparent that the caller sent; empty without one."""
    for key, value in context.invocation_metadata() or ():
        if key == TRACEPARENT:
            return read_traceparent(value)
    return ""
