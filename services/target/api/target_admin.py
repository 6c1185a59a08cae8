"""TargetAdmin: the admin service of a target."""

# ruff: noqa: N802, ARG002 -- the proto names the methods, gRPC gives the arguments

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from outrider.v1 import admin_pb2
from services.engine.config import ConfigError
from services.service.admin.admin_servicer import AdminServicer, Context
from services.service.errors import InvalidRequestError, UnavailableError, UnimplementedError, Violation
from services.service.life.availability import Availability
from services.service.life.reload import Reload
from services.service.server_config import ServerConfig, check_address
from services.target.api.servicer import GenerationServicer
from services.target.generation.engine_figures import SequenceFigures
from services.target.generation.engine_interface import Drafts, Engine
from services.target.models.lora_changes import LoraChanges
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels
from services.target.sequence.generation import Generation
from services.telemetry.telemetry import Telemetry

_CANCELLED = "the request was cancelled by those who run the server"


class TargetAdmin(AdminServicer[Engine]):
    """Finds the requests in their statistics; RPCs that are not about all models are about the first one."""

    def __init__(
        self,
        availability: Availability,
        reload: Reload,
        telemetry: Telemetry,
        models: TargetModels,
        servicer: GenerationServicer,
        config: ServerConfig,
        follow_log_level: Callable[[], None],
        lora_changes: LoraChanges,
    ) -> None:
        """`config` has the initial limits; `follow_log_level` is called when the level has changed."""
        super().__init__(availability, reload, telemetry, lambda: models.first.engine)
        self._models, self._servicer, self._config = models, servicer, config
        self._follow_log_level, self._lora_changes = follow_log_level, lora_changes

    async def ListRequests(
        self, request: admin_pb2.ListRequestsRequest, context: Context
    ) -> admin_pb2.ListRequestsResponse:
        """List every request with its progress, but without its text."""
        self._models.residency.check_open()
        statuses = [status for model in self._models.all for status in await _statuses(model)]
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

    async def SetLogLevel(
        self, request: admin_pb2.SetLogLevelRequest, context: Context
    ) -> admin_pb2.SetLogLevelResponse:
        """Set the log level of all processes; raises InvalidRequestError for an unknown one."""
        response = await super().SetLogLevel(request, context)
        self._follow_log_level()
        return response

    async def AddDraft(self, request: admin_pb2.AddDraftRequest, context: Context) -> admin_pb2.AddDraftResponse:
        """Add a draft, and try to link to it."""
        drafts = self._changeable_drafts()
        with _errors_of_address(request.address):
            await drafts.add(request.address)
        return admin_pb2.AddDraftResponse(drafts=await self._draft_statuses())

    async def RemoveDraft(
        self, request: admin_pb2.RemoveDraftRequest, context: Context
    ) -> admin_pb2.RemoveDraftResponse:
        """Remove a draft and end its link."""
        drafts = self._changeable_drafts()
        with _errors_of_address(request.address):
            await drafts.remove(request.address)
        return admin_pb2.RemoveDraftResponse(drafts=await self._draft_statuses())

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

    def _changeable_drafts(self) -> Drafts:
        self._require_engine()
        if (drafts := self._models.first.drafts) is None:
            raise UnimplementedError("this target takes no drafts")
        return drafts

    async def _draft_statuses(self) -> list[admin_pb2.DraftStatus]:
        drafts = self._models.first.drafts
        absences = await drafts.absences() if drafts else {}
        return [admin_pb2.DraftStatus(address=address, absence=absence) for address, absence in absences.items()]

    def _apply(self, config: ServerConfig) -> None:
        for model in self._models.all:
            model.admissions.resize(config)
        self._servicer.reader_timeout = config.reader_timeout

    def _count_left(self, engine: Engine) -> int:
        return sum(model.statistics.num_live for model in self._models.all)

    async def _describe(self, engine: Engine, statistics: admin_pb2.GetStatisticsResponse) -> None:
        figures, facts, load = await asyncio.to_thread(engine.figures), engine.facts, engine.load
        statistics.model = self._models.first.name
        statistics.cache.CopyFrom(
            admin_pb2.CacheStatistics(
                total_blocks=facts.num_blocks,
                free_blocks=facts.num_blocks - load.used_blocks,
                findable_blocks=figures.findable_blocks,
                block_size=facts.block_size,
            )
        )
        statistics.running, statistics.waiting = load.running, load.waiting
        statistics.generated_tokens = figures.num_tokens
        statistics.preemptions = figures.num_preemptions
        statistics.limits.CopyFrom(self._limits())
        statistics.drafts.extend(await self._draft_statuses())

    def _limits(self) -> admin_pb2.AdjustableLimits:
        config = self._config
        return admin_pb2.AdjustableLimits(
            max_queue=config.max_queue,
            max_waiting_tokens=config.max_waiting_tokens,
            max_streams_per_caller=self._models.first.admissions.streams.each,
            max_text_calls=config.max_text_calls,
            reader_timeout=config.reader_timeout,
        )


def _engine_of(model: TargetModel) -> Engine:
    if (engine := model.engine) is None:
        raise UnavailableError("the model is not loaded")
    return engine


@contextmanager
def _errors_of_address(address: str) -> Iterator[None]:
    """Check an address, and raise the ValueErrors of its change as the call's own."""
    try:
        check_address("address", address)
        yield
    except ValueError as error:  # ConfigError is one too
        raise InvalidRequestError([Violation("address", f"{address[:64]!r}: {error}")]) from error


async def _statuses(model: TargetModel) -> list[admin_pb2.RequestStatus]:
    if (engine := model.engine) is None:
        return []
    sequences, now = await asyncio.to_thread(engine.sequences), time.monotonic()
    return [_status(each, sequences.get(each.number), now) for each in model.statistics.live]


def _cancel(model: TargetModel, request_id: str) -> int:
    """End the model's requests with that id; returns how many there were."""
    named = [each for each in model.statistics.live if each.request.request_id == request_id]
    if (engine := model.engine) is not None:
        for generation in named:
            engine.abort(generation.number, _CANCELLED)
    return len(named)


def _status(generation: Generation, figures: SequenceFigures | None, now: float) -> admin_pb2.RequestStatus:
    timings = generation.timings
    status = admin_pb2.RequestStatus(
        request_id=generation.request.request_id,
        caller=generation.request.share.caller,
        age_seconds=now - timings.arrived,
        queued_seconds=(timings.scheduled or now) - timings.arrived,
        prompt_tokens=generation.num_prompt,
        generated_tokens=generation.num_generated,
    )
    if figures is not None:
        status.computed_tokens, status.generated_tokens = figures.num_computed, max(0, figures.num_generated)
        status.blocks, status.is_running = figures.num_blocks, figures.is_running
    return status
