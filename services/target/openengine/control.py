"""Control: the contract's service by which routers ask about the server and change it."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import uuid
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version

from outrider.v1 import common_pb2, generation_pb2
from services.service.access.access_interceptor import check_scope
from services.service.access.caller import Scope
from services.service.errors import (
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PreconditionError,
    RpcError,
    UnavailableError,
)
from services.service.validation import Violations
from services.target.api.servicer import Context, GenerationServicer
from services.target.contracts.field_names import not_found
from services.target.contracts.subscribers import Subscribers
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels
from services.target.openengine.answers import write_error
from services.target.openengine.kv_events import write_batch
from services.target.openengine.loras import Loras
from services.target.openengine.running_requests import RunningRequests
from services.target.openengine.server_facts import write_load, write_model_info, write_server_info
from services.target.openengine.v1 import openengine_pb2

_READY, _NOT_READY = openengine_pb2.HEALTH_STATE_READY, openengine_pb2.HEALTH_STATE_NOT_READY
_STARTING = openengine_pb2.HEALTH_STATE_STARTING


class Control:
    """A model is loaded to be described, and for a probe."""

    def __init__(
        self,
        generation: GenerationServicer,
        models: TargetModels,
        requests: RunningRequests,
        subscribers: Subscribers,
        loras: Loras,
    ) -> None:
        """`requests` are those that can be aborted."""
        self._generation, self._models, self._requests = generation, models, requests
        self._subscribers, self._loras = subscribers, loras
        self._instance_id = str(uuid.uuid4())

    async def GetServerInfo(
        self, request: openengine_pb2.GetServerInfoRequest, context: Context
    ) -> openengine_pb2.ServerInfo:
        """Describe the server, loaded or not."""
        return write_server_info(self._models, version("outrider"), self._instance_id)

    async def GetModelInfo(
        self, request: openengine_pb2.GetModelInfoRequest, context: Context
    ) -> openengine_pb2.ModelInfo:
        """Describe a model, or one with an adapter."""
        found = Violations()
        if not request.model:
            found.add("model", "is empty", "one of GetServerInfo's supported_models")
        found.raise_if_any()
        model = self._find(request.model)
        serving = await self._generation.enter(context, request.model)
        return write_model_info(serving.model.asked(request.model, ""), model, serving)

    async def GetLoad(self, request: openengine_pb2.GetLoadRequest, context: Context) -> openengine_pb2.LoadInfo:
        """Report the load of the first model."""
        return write_load(self._generation.serving(), self._instance_id, by_rank=request.include_per_rank)

    async def Health(self, request: openengine_pb2.HealthRequest, context: Context) -> openengine_pb2.HealthResponse:
        """Report whether requests are served, and if that is wanted, try one."""
        model = self._models.first
        if request.include_inference_probe:
            if self._generation.callers.need_tokens:
                check_scope(self._generation.callers.of(context), Scope.GENERATE)
            model = self._find(request.model) if request.model else model
        checks = [self._check_model(model)]
        if request.role:
            checks.append(_check_role(request.role))
        if request.include_inference_probe:
            checks.append(await self._probe(request.model, context))
        bad = (check.state for check in checks if check.state != _READY)
        return openengine_pb2.HealthResponse(state=next(bad, _READY), checks=checks)

    async def Abort(self, request: openengine_pb2.AbortRequest, context: Context) -> openengine_pb2.AbortResponse:
        """Abort one of the caller's requests, or all of them."""
        owner, is_running = self._generation.callers.of(context).owner, True
        match request.WhichOneof("target"):
            case "request_id":
                is_running = self._requests.abort(owner, request.request_id)
            case "all_requests":
                is_running = self._requests.abort_all(owner) > 0
            case "kv_session":
                raise NotFoundError("kv_session is not known: this server keeps none for other engines")
            case _:
                found = Violations()
                found.add("target", "is not set", "request_id or all_requests")
                found.raise_if_any()
        aborted, ended = openengine_pb2.ABORT_STATUS_ABORTED, openengine_pb2.ABORT_STATUS_ALREADY_FINISHED
        return openengine_pb2.AbortResponse(status=aborted if is_running else ended)

    async def LoadLora(
        self, request: openengine_pb2.LoadLoraRequest, context: Context
    ) -> openengine_pb2.LoadLoraResponse:
        """Load a LoRA adapter for the first model."""
        self._require_tokens()
        return await self._loras.load(request.adapter)

    async def UnloadLora(
        self, request: openengine_pb2.UnloadLoraRequest, context: Context
    ) -> openengine_pb2.UnloadLoraResponse:
        """Refuse further requests for a LoRA adapter, and unload it after the last one."""
        self._require_tokens()
        return await self._loras.unload(request.lora_name)

    async def ListLoras(
        self, request: openengine_pb2.ListLorasRequest, context: Context
    ) -> openengine_pb2.ListLorasResponse:
        """List the first model's LoRA adapters, with their folders."""
        self._require_tokens()
        return openengine_pb2.ListLorasResponse(adapters=self._loras.all())

    async def GetKvEventSources(
        self, request: openengine_pb2.GetKvEventSourcesRequest, context: Context
    ) -> openengine_pb2.GetKvEventSourcesResponse:
        """Return this server as the only source, if it sends events: clients refuse two for a rank."""
        _check_ranks(request.data_parallel_ranks)
        if not self._models.first.config.kv_events:
            return openengine_pb2.GetKvEventSourcesResponse()
        source = openengine_pb2.KvEventSource(transport="grpc", data_parallel_rank=0, encoding="protobuf")
        return openengine_pb2.GetKvEventSourcesResponse(sources=[source])

    async def SubscribeKvEvents(self, request: openengine_pb2.SubscribeKvEventsRequest, context: Context) -> None:
        """Write what the first model's prefix cache stores and removes."""
        _check_ranks(request.data_parallel_ranks)
        start: int | None = request.start_sequence_number
        if request.include_snapshot and start:
            found = Violations()
            found.add("start_sequence_number", f"is {start}", "0 with include_snapshot")
            found.raise_if_any()
        if not request.include_snapshot and start == 0:
            start = None
        write = partial(write_batch, lora_id=self._loras.id_of)
        await self._subscribers.send(start, context, write, _write_failure)

    def _require_tokens(self) -> None:
        """Raise PreconditionError where callers have no scopes: all who can generate could change what is served."""
        if not self._generation.callers.need_tokens:
            raise PreconditionError("adapters are not administered here: this server was started without --tokens-file")

    def _find(self, name: str) -> TargetModel:
        try:
            return self._models.find(name)
        except InvalidRequestError as error:
            raise not_found(error) from error

    def _check_model(self, model: TargetModel) -> openengine_pb2.HealthCheck:
        try:
            self._generation.check_open()
        except UnavailableError as error:
            state = _NOT_READY if self._models.residency.can_serve else _STARTING
            return openengine_pb2.HealthCheck(name="model", state=state, message=str(error))
        if model.serving is None and not self._models.residency.is_open:
            message = f"the model is still loading: {model.progress}"
            return openengine_pb2.HealthCheck(name="model", state=_STARTING, message=message)
        return openengine_pb2.HealthCheck(name="model", state=_READY, message="serving")

    async def _probe(self, model: str, context: Context) -> openengine_pb2.HealthCheck:
        """Generate a token."""
        request = generation_pb2.GenerateRequest(
            prompt=common_pb2.Prompt(token_ids=common_pb2.TokenIds(ids=[0])),
            sampling=common_pb2.SamplingParameters(temperature=0),
            stop=common_pb2.StopConditions(max_tokens=1),
            cache=common_pb2.CachePolicy(prefix=False),
            model=model or None,
        )
        state, message = _READY, "a token was generated"
        try:
            answer = await self._generation.Generate(request, context)
            if not answer.token_ids:
                reason = common_pb2.FinishReason.Name(answer.finished.reason)
                state, message = _NOT_READY, f"no token was generated: {reason}"
        except OverloadedError as error:
            state, message = openengine_pb2.HEALTH_STATE_DEGRADED, str(error)
        except RpcError as error:
            state, message = _NOT_READY, str(error)
        return openengine_pb2.HealthCheck(name="inference_probe", state=state, message=message)


def _check_role(role: int) -> openengine_pb2.HealthCheck:
    is_ours = role == openengine_pb2.ENGINE_ROLE_AGGREGATED
    message = "" if is_ours else "this server is ENGINE_ROLE_AGGREGATED: it computes both prompts and answers"
    return openengine_pb2.HealthCheck(name="role", state=_READY if is_ours else _NOT_READY, message=message)


def _check_ranks(ranks: Iterable[int]) -> None:
    found = Violations()
    found.check_entries("data_parallel_ranks", ranks, lambda rank: rank == 0, lambda rank: f"is {rank}", 0)
    found.raise_if_any()


def _write_failure(error: RpcError) -> openengine_pb2.SubscribeKvEventsResponse:
    return openengine_pb2.SubscribeKvEventsResponse(error=write_error(error))
