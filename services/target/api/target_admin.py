"""TargetAdmin: the admin service of a target."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from outrider.v1 import admin_pb2
from services.engine.config import ConfigError
from services.service.admin.admin_servicer import AdminServicer, Context
from services.service.errors import InvalidRequestError, UnavailableError, UnimplementedError, Violation
from services.service.life.availability import Availability
from services.service.life.reload import Reload
from services.service.server_config import ServerConfig, check_address
from services.target.api.servicer import GenerationServicer
from services.target.generation.engine import TargetEngine
from services.target.models.draft_changes import DraftChanges
from services.target.models.lora_changes import LoraChanges
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels
from services.target.sequence.sequence import Sequence
from services.telemetry.telemetry import Telemetry

_Change = Callable[[DraftChanges, TargetEngine, str], Awaitable[None]]
_CANCELLED = "the request was cancelled by those who run the server"


class TargetAdmin(AdminServicer[TargetEngine]):
    """Finds the requests in their statistics; RPCs that are not about all models are about the first one."""

    def __init__(
        self,
        availability: Availability,
        reload: Reload,
        telemetry: Telemetry,
        models: TargetModels,
        servicer: GenerationServicer,
        config: ServerConfig,
    ) -> None:
        """`config` has the initial limits."""
        super().__init__(availability, reload, telemetry, lambda: models.first.engine)
        self._models, self._servicer, self._config = models, servicer, config
        self._lora_changes = LoraChanges(models)

    async def ListRequests(
        self, request: admin_pb2.ListRequestsRequest, context: Context
    ) -> admin_pb2.ListRequestsResponse:
        """List every request with its progress, but without its text."""
        self._models.residency.check_open()
        statuses = [status for model in self._models.all for status in _statuses(model)]
        return admin_pb2.ListRequestsResponse(requests=sorted(statuses, key=lambda status: -status.age_seconds))

    async def CancelRequest(
        self, request: admin_pb2.CancelRequestRequest, context: Context
    ) -> admin_pb2.CancelRequestResponse:
        """End all requests of that name."""
        self._models.residency.check_open()
        return admin_pb2.CancelRequestResponse(
            cancelled=sum(_cancel(model, request.request_id) for model in self._models.all)
        )

    async def SetLimits(self, request: admin_pb2.SetLimitsRequest, context: Context) -> admin_pb2.SetLimitsResponse:
        """Change the limits that are set; raises InvalidRequestError, and changes none, if one of them is invalid."""
        changes = {field.name: value for field, value in request.limits.ListFields()}
        if changes.get("max_streams_per_caller") == 0:
            changes["max_streams_per_caller"] = None
        try:
            self._config = replace(self._config, **changes)
        except ConfigError as error:
            raise InvalidRequestError([Violation("limits", str(error))]) from error
        self._apply(self._config)
        return admin_pb2.SetLimitsResponse(limits=self._limits())

    async def AddDraft(self, request: admin_pb2.AddDraftRequest, context: Context) -> admin_pb2.AddDraftResponse:
        """Add a draft, and try to link to it."""
        await self._change_drafts(request.address, DraftChanges.add)
        return admin_pb2.AddDraftResponse(drafts=self._draft_statuses())

    async def RemoveDraft(
        self, request: admin_pb2.RemoveDraftRequest, context: Context
    ) -> admin_pb2.RemoveDraftResponse:
        """Remove a draft and end its link."""
        await self._change_drafts(request.address, DraftChanges.remove)
        return admin_pb2.RemoveDraftResponse(drafts=self._draft_statuses())

    async def LoadLora(self, request: admin_pb2.LoadLoraRequest, context: Context) -> admin_pb2.LoadLoraResponse:
        """Load another LoRA adapter, which requests can then name; raises InvalidRequestError if it cannot be used."""
        model = self._models.find(request.model) if request.model else self._models.first
        try:
            await self._lora_changes.load(model, _engine_of(model), request.name, request.folder)
        except ValueError as error:
            raise InvalidRequestError([Violation("folder", f"{request.folder[:64]!r}: {error}")]) from error
        return admin_pb2.LoadLoraResponse(loras=model.loras)

    async def UnloadLora(self, request: admin_pb2.UnloadLoraRequest, context: Context) -> admin_pb2.UnloadLoraResponse:
        """Refuse further requests for a LoRA adapter, and unload it after the last one; raises InvalidRequestError."""
        if (model := self._models.with_lora(request.name)) is None:
            names = [repr(name) for each in self._models.all for name in each.loras]
            allowed = ", ".join(names) or "none, there are none"
            raise InvalidRequestError([Violation("name", f"{request.name[:64]!r} is not loaded; allowed: {allowed}")])
        left = self._lora_changes.drop(_engine_of(model), model, request.name)
        return admin_pb2.UnloadLoraResponse(loras=model.loras, left=left)

    async def _change_drafts(self, address: str, change: _Change) -> None:
        engine = self._require_engine()
        if (drafts := self._models.first.drafts) is None:
            raise UnimplementedError("this target takes no drafts")
        try:
            check_address("address", address)
            await change(drafts.changes, engine, address)
        except ValueError as error:  # ConfigError is one too
            raise InvalidRequestError([Violation("address", f"{address[:64]!r}: {error}")]) from error

    def _draft_statuses(self) -> Iterator[admin_pb2.DraftStatus]:
        drafts = self._models.first.drafts
        for address, absence in (drafts.pool.absences if drafts else {}).items():
            yield admin_pb2.DraftStatus(address=address, absence=absence)

    def _apply(self, config: ServerConfig) -> None:
        for model in self._models.all:
            model.admissions.resize(config)
        self._servicer.reader_timeout = config.reader_timeout

    def _count_left(self, engine: TargetEngine) -> int:
        return sum(model.statistics.num_live for model in self._models.all)

    def _describe(self, engine: TargetEngine, statistics: admin_pb2.GetStatisticsResponse) -> None:
        statistics.model = self._models.first.name
        statistics.running, statistics.waiting = len(engine.scheduler.running), len(engine.scheduler.waiting)
        statistics.generated_tokens = engine.num_tokens
        statistics.preemptions = engine.scheduler.num_preemptions
        statistics.limits.CopyFrom(self._limits())
        statistics.drafts.extend(self._draft_statuses())

    def _limits(self) -> admin_pb2.AdjustableLimits:
        config = self._config
        return admin_pb2.AdjustableLimits(
            max_queue=config.max_queue,
            max_waiting_tokens=config.max_waiting_tokens,
            max_streams_per_caller=self._models.first.admissions.streams.each,
            max_text_calls=config.max_text_calls,
            reader_timeout=config.reader_timeout,
        )


def _engine_of(model: TargetModel) -> TargetEngine:
    if (engine := model.engine) is None:
        raise UnavailableError("the model is not loaded")
    return engine


def _statuses(model: TargetModel) -> Iterator[admin_pb2.RequestStatus]:
    if (engine := model.engine) is not None:
        now, running = time.monotonic(), {*engine.scheduler.running}
        for sequence in model.statistics.live:
            yield _status(sequence, now, is_running=sequence in running)


def _cancel(model: TargetModel, request_id: str) -> int:
    """End the model's requests with that id; returns how many there were."""
    named = [each for each in model.statistics.live if each.request.request_id == request_id]
    if (engine := model.engine) is not None:
        for sequence in named:
            engine.abort(sequence, _CANCELLED)
    return len(named)


def _status(sequence: Sequence, now: float, *, is_running: bool) -> admin_pb2.RequestStatus:
    timings = sequence.timings
    return admin_pb2.RequestStatus(
        request_id=sequence.request.request_id,
        caller=sequence.request.share.caller,
        age_seconds=now - timings.arrived,
        queued_seconds=(timings.scheduled or now) - timings.arrived,
        prompt_tokens=sequence.num_prompt,
        computed_tokens=sequence.text.num_computed,
        generated_tokens=max(0, sequence.num_generated),
        blocks=len(sequence.text.blocks),
        is_running=is_running,
    )
