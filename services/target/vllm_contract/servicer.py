"""VllmEngineServicer: the methods of vLLM's contract, each a few steps around the generation service."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import asyncio
import time
from typing import NoReturn

from grpc import aio
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2, vllm_engine_pb2_grpc

from services.engine.range import Range
from services.service.errors import InvalidRequestError, RequestCancelledError, UnavailableError, UnimplementedError
from services.service.validation import Violations
from services.target.api.servicer import Context, GenerationServicer
from services.target.contracts.abortable_calls import AbortableCalls, CallAbortedError
from services.target.contracts.answering import ContractAnswering
from services.target.contracts.subscribers import Subscribers
from services.target.vllm_contract.answers import Answers
from services.target.vllm_contract.kv_events import write_batch
from services.target.vllm_contract.request import in_words, read_embed_request, read_request
from services.target.vllm_contract.server_facts import write_loads, write_model_info, write_server_info
from services.target.vllm_contract.tokenizer_archive import TokenizerArchive

_MOST_ABORTED = 1024  # requests by one call


class VllmEngineServicer(vllm_engine_pb2_grpc.VllmEngineServicer):
    """Generates with the generation service, so that its limits and checks apply to these calls too."""

    def __init__(self, generation: GenerationServicer, subscribers: Subscribers) -> None:
        self._generation, self._subscribers = generation, subscribers
        self._calls, self._tokenizer = AbortableCalls(), TokenizerArchive()
        self._answering = ContractAnswering(generation)
        self._began, self._heard_at = time.monotonic(), 0.0

    def register(self, server: aio.Server) -> None:
        """Register the methods with a server."""
        vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Generate(self, request: vllm_engine_pb2.GenerateRequest, context: Context) -> None:
        """Write chunks, if the request wants a stream, and the end of each sample."""
        self._heard_at = time.time()
        serving, caller = await self._generation.enter(context), self._generation.callers.of(context)
        serving.admissions.streams.check(1, caller)  # before the request costs anything
        with self._calls.begin(caller.name, request.request_id) as call:
            try:
                message = await asyncio.to_thread(read_request, request, serving.model)
                await self._answering.answer(message, Answers(request, message.num_samples), call, context)
            except InvalidRequestError as error:
                raise in_words(error) from error

    async def Abort(self, request: vllm_engine_pb2.AbortRequest, context: Context) -> vllm_engine_pb2.AbortResponse:
        """Abort the caller's requests with these ids; ids of requests that have ended are no error."""
        found = Violations()
        found.check_length("request_ids", request.request_ids, _MOST_ABORTED)
        found.raise_if_any()
        caller = self._generation.callers.of(context).name
        for name in request.request_ids:
            self._calls.abort(caller, name)
        return vllm_engine_pb2.AbortResponse()

    async def HealthCheck(
        self, request: vllm_engine_pb2.HealthCheckRequest, context: Context
    ) -> vllm_engine_pb2.HealthCheckResponse:
        """Report whether requests are served, and if not, the reason."""
        try:
            self._generation.check_open()
        except UnavailableError as error:
            return vllm_engine_pb2.HealthCheckResponse(healthy=False, message=str(error))
        return vllm_engine_pb2.HealthCheckResponse(healthy=True, message="serving")

    async def GetModelInfo(
        self, request: vllm_engine_pb2.GetModelInfoRequest, context: Context
    ) -> vllm_engine_pb2.GetModelInfoResponse:
        """Describe the first model."""
        return write_model_info((await self._generation.enter(context)).model)

    async def GetServerInfo(
        self, request: vllm_engine_pb2.GetServerInfoRequest, context: Context
    ) -> vllm_engine_pb2.GetServerInfoResponse:
        """Describe the server's configuration."""
        uptime = time.monotonic() - self._began
        return write_server_info(await self._generation.enter(context), uptime=uptime, heard_at=self._heard_at)

    async def GetLoads(
        self, request: vllm_engine_pb2.GetLoadsRequest, context: Context
    ) -> vllm_engine_pb2.GetLoadsResponse:
        """Report the load; `include` is ignored, since no server of this contract has optional sections."""
        found = Violations()
        found.check_number("dp_rank", request.dp_rank, Range(minimum=0, maximum=0))
        found.raise_if_any()
        serving = self._generation.serving()
        return write_loads(serving, serving.model.fingerprint.version)

    async def GetTokenizer(self, request: common_pb2.GetTokenizerRequest, context: Context) -> None:
        """Write the tokenizer's files as a zip file, in pieces."""
        serving = await self._generation.enter(context)
        with serving.admissions.text_calls.admit(1, self._generation.callers.of(context)):
            chunks = await self._tokenizer.chunks(serving.model)
        async with self._generation.writer(context) as writer:
            for chunk in chunks:
                await writer.write(chunk)

    async def Embed(self, request: vllm_engine_pb2.EmbedRequest, context: Context) -> vllm_engine_pb2.EmbedResponse:
        """Return a text's vector: the last token's, of length 1, as engines of this contract pool decoders."""
        self._heard_at = time.time()
        serving, caller = await self._generation.enter(context), self._generation.callers.of(context)
        with self._calls.begin(caller.name, request.request_id) as call:
            try:
                message = read_embed_request(request, serving.model)
                response = await call.wait(lambda: self._generation.Embed(message, context))
            except InvalidRequestError as error:
                raise in_words(error) from error
            except CallAbortedError as error:
                raise RequestCancelledError("the request was aborted by its name") from error
        (vector,) = response.embeddings
        return vllm_engine_pb2.EmbedResponse(
            embedding=vector.values, prompt_tokens=vector.prompt_tokens, embedding_dim=len(vector.values)
        )

    async def FlushCache(self, request: common_pb2.FlushCacheRequest, context: Context) -> NoReturn:
        """Refuse with UNIMPLEMENTED."""
        raise UnimplementedError("this server does not flush its prefix cache")

    async def StartProfile(self, request: common_pb2.StartProfileRequest, context: Context) -> NoReturn:
        """Refuse with UNIMPLEMENTED."""
        raise UnimplementedError("this server has no profiler that calls start")

    async def StopProfile(self, request: common_pb2.StopProfileRequest, context: Context) -> NoReturn:
        """Refuse with UNIMPLEMENTED."""
        raise UnimplementedError("this server has no profiler that calls stop")

    async def SubscribeKvEvents(self, request: common_pb2.SubscribeKvEventsRequest, context: Context) -> None:
        """Write what the first model's prefix cache stores and removes, from a number on, or for 0 after a snapshot."""
        await self._subscribers.send(request.start_sequence_number, context, write_batch)
