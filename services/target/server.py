"""TargetServer: the life of the target service: listen, load, warm up, serve, drain."""

import asyncio
import logging
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial

from grpc import aio

from outrider.v1 import generation_pb2
from outrider.v1.generation_pb2_grpc import add_GenerationServiceServicer_to_server
from services.engine.config import EngineConfig, check_range
from services.engine.decoder.compute_resources import ComputeResources
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.events import Failed
from services.engine.hub.fetched_model import fetch
from services.engine.request import Request, StopConditions
from services.engine.sampling_params import SamplingParams
from services.service.access.clear_text import check_clear_text
from services.service.access.credential_files import CredentialFiles
from services.service.access.tokens import read_callers
from services.service.admin.admin_server import AdminServer
from services.service.engine_host import EngineHost
from services.service.errors import EngineFailedError
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.life.reload import Reload
from services.service.rpc_server import RpcServer
from services.service.server_config import ServerConfig
from services.target.api.admissions import Admissions
from services.target.api.served_model import ServedModel
from services.target.api.servicer import GenerationServicer
from services.target.api.target_admin import TargetAdmin
from services.target.draft_changes import DraftChanges
from services.target.generation.engine import TargetEngine
from services.target.message.syntax import AUTO, MessageSyntax
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.request_traces import RequestTraces
from services.target.metrics.target_load import TargetLoad
from services.target.metrics.target_metrics import TargetMetrics
from services.target.prompt.chat_template import ChatTemplate
from services.target.speculation.link.draft_links import DraftLinks
from services.target.speculation.link.draft_pool import DraftPool
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.predictor_order import with_lookup
from services.target.speculation.policy.rehearsal import Rehearsals
from services.target.speculation.predictors.predictor import Predictor
from services.target.vllm_contract.contract import SERVICE as CONTRACT
from services.target.vllm_contract.contract import open_contract
from services.telemetry.call_metrics import CallMetrics
from services.telemetry.telemetry import Telemetry
from services.telemetry.telemetry_config import TelemetryConfig

logger = logging.getLogger(__name__)

SERVICE: str = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
_SHUTTING_DOWN = "the server is shutting down"
_WARM_UP_TOKENS = 4
_MOST_RUN_AHEAD = 64  # as far as drafts go
_MOST_ALTERNATES = 64


class TargetServer:
    """Call `start`, then `open`, in the end `close`; all on one event loop."""

    def __init__(
        self,
        engine: EngineConfig,
        server: ServerConfig,
        *,
        name: str | None = None,
        predictor: Predictor | None = None,
        drafts: Seq[str] = (),
        run_ahead: int | None = None,
        num_alternates: int = 0,
        draft_credentials: CredentialFiles | None = None,
        lookup: bool = True,
        tool_parser: str = AUTO,
        reasoning_parser: str = AUTO,
        vllm_contract: bool | None = None,
        telemetry: TelemetryConfig | None = None,
    ) -> None:
        """`name` is what clients see as the model's name, by default that of its folder, or on the hub. `drafts` are
        addresses of draft services, which share the sequences unless there is another predictor, and are shown what the
        `draft_credentials` hold; `run_ahead`, `num_alternates`: see DraftClient. With `lookup`, what a text repeats is
        predicted too. The parsers: see MessageSyntax; `vllm_contract`: see open_contract. Raises ConfigError.
        """
        _check_links(run_ahead, num_alternates)
        self._config, self._policy, self._name = engine, PolicyConfig(), name or ""
        self._telemetry, self._statistics = Telemetry(telemetry, "outrider-target"), RequestStatistics()
        self._draft_files = draft_credentials or CredentialFiles()
        has_drafts = predictor is None and bool(drafts or server.admin_listen)
        self._drafts = self._new_drafts(drafts, server, run_ahead, num_alternates) if has_drafts else None
        self._rehearsals = {address: Rehearsals(self._policy.rehearsal) for address in drafts}
        self._callers, self._chat_template = read_callers(server.tokens_file), ChatTemplate(None, {})
        self._parsers = {"tool_parser": tool_parser, "reasoning_parser": reasoning_parser}
        self._predictors = self._order_predictors(predictor, has_lookup=lookup)
        self._vllm_contract, self._progress, self.reload = vllm_contract, LoadingProgress(), Reload()
        self.availability = Availability(self._tell_availability)
        self._host = EngineHost(self._open_engine, self.availability, hang_seconds=server.hang_seconds)
        self._drain_seconds = server.drain_seconds
        self._admissions = Admissions(server, max_sequences=engine.max_sequences)
        self._servicer = self._new_servicer(server)
        self._server = self._new_server(server)
        self.admin = AdminServer(server, self._callers, self._new_admin(server), self._progress)

    @property
    def engine(self) -> TargetEngine | None:
        """The engine, once the model is loaded."""
        return self._host.engine

    def _order_predictors(self, predictor: Predictor | None, *, has_lookup: bool) -> list[Predictor]:
        predictors = self._drafts.predictors if self._drafts else [predictor] if predictor else []
        return with_lookup(*predictors, config=self._policy.lookup) if has_lookup else [*predictors]

    def _new_server(self, server: ServerConfig) -> RpcServer:
        contract = open_contract(self._vllm_contract, self._servicer, self._admissions)

        def register(rpc: aio.Server) -> None:
            add_GenerationServiceServicer_to_server(self._servicer, rpc)
            if contract is not None:
                contract.register(rpc)

        services = [SERVICE, CONTRACT] if contract else [SERVICE]
        checks = {f"/{SERVICE}/StreamGenerate": self._servicer.check}
        return RpcServer(server, self._callers, services, register, self._progress, checks=checks)

    def _new_servicer(self, server: ServerConfig) -> GenerationServicer:
        tracing = self._telemetry.tracing
        return GenerationServicer(
            self._callers,
            self._admissions,
            self._progress,
            self._statistics,
            traces=RequestTraces(tracing) if tracing else None,
            load_reports=self._telemetry.config.load_reports,
            reader_timeout=server.reader_timeout,
        )

    def _new_admin(self, server: ServerConfig) -> TargetAdmin:
        return TargetAdmin(
            self.availability,
            self.reload,
            self._telemetry,
            lambda: self.engine,
            self._servicer,
            self._statistics,
            self._new_changes(self._drafts, server) if self._drafts else None,
            self._admissions,
            server,
        )

    def _new_changes(self, drafts: DraftPool, server: ServerConfig) -> DraftChanges:
        check = partial(self._check_draft, server=server)
        return DraftChanges(drafts, self._rehearsals, self._policy.rehearsal, check)

    def _new_drafts(
        self, addresses: Seq[str], server: ServerConfig, run_ahead: int | None, num_alternates: int
    ) -> DraftPool:
        for address in addresses:
            self._check_draft(address, server)
        resources = ComputeResources.here(device=self._config.device, threads=self._config.threads)
        return DraftPool(
            addresses,
            resources,
            self._policy.draft,
            credentials=self._draft_files.watch(),
            run_ahead=run_ahead,
            num_alternates=num_alternates,
            is_open=server.admin_listen is not None,
            on_linked=self._meet_draft,
        )

    def _check_draft(self, address: str, server: ServerConfig) -> None:
        """Raise ConfigError where clear text would leave this machine unasked."""
        if self._draft_files.authorities is None:
            check_clear_text("draft", address, "give --draft-tls-ca", is_allowed=server.insecure)

    async def start(self) -> str:
        """Listen, and return the address; requests get UNAVAILABLE until the model is loaded."""
        self._telemetry.start(CallMetrics(self._server.calls))
        await self.admin.start()
        return await self._server.start()

    async def open(self) -> None:
        """Load the model on a thread, warm it up and serve; raises CheckpointError, ConfigError, EngineFailedError."""
        logger.info("loading %s", self._config.model)
        engine = await self._host.open()
        await _warm_up(engine)
        template = self._chat_template
        syntax = MessageSyntax.find(template.source, engine.model.tokenizer, **self._parsers)
        model = ServedModel.of(engine, self._name, template, syntax)
        load = TargetLoad(engine, self._statistics, lambda: self._admissions.streams.total)
        self._servicer.open(engine, model, load)
        self._telemetry.add([self._new_metrics(engine, model.name, load)])
        if self._drafts is not None:
            self._drafts.start(vocabulary=engine.model.tokenizer.fingerprint(), vocab_size=model.config.vocab_size)
            await asyncio.gather(*(each.first() for each in self._rehearsals.values()))
        await self._tell_availability(self.availability.reason)
        engine.grammars.begin()  # not before: it would slow down what is measured, and hold up all who wait
        logger.info(
            "serving %s: device %s, %s threads, context of %s tokens, %s KV blocks, fingerprint %s",
            model.name,
            engine.model.device.name,
            self._config.threads,
            model.context_length,
            engine.blocks.num_blocks,
            model.fingerprint,
        )

    async def wait_failed(self) -> ExitCode:
        """Return when the engine has died or hangs; of a dead one's sequences all have been told."""
        code = await self._host.wait_ended()
        await self.availability.obstruct("the engine has failed")
        return code

    async def close(self) -> None:
        """Drain: refuse new requests, let the running ones finish for a while, cut the rest, end the engine.

        What is cut ends with UNAVAILABLE behind all that was generated, and can be taken up again elsewhere.
        """
        await self.availability.obstruct(_SHUTTING_DOWN)
        if not await self._admissions.streams.wait_until_idle(self._drain_seconds):
            logger.warning("streams still run after %s s; they are cut", self._drain_seconds)
            if self.engine is not None:
                self.engine.abandon(_SHUTTING_DOWN)
        await self._server.stop()
        await self.admin.stop()
        for each in self._rehearsals.values():
            each.stop()
        if self._drafts is not None:
            await self._drafts.stop()
        await self._host.close()
        await self._telemetry.close()

    def _new_metrics(self, engine: TargetEngine, name: str, load: TargetLoad) -> TargetMetrics:
        prefix = self._telemetry.config.metrics_prefix
        links = self._drafts.links if self._drafts else DraftLinks
        return TargetMetrics(engine, load, self._statistics, links, prefix=prefix, model_name=name)

    async def _tell_availability(self, reason: str) -> None:
        self._servicer.refuse(reason)
        await self._server.set_serving(not reason and self._servicer.is_open)

    def _meet_draft(self, address: str) -> None:
        self._rehearsals[address].draft_came(self._rehearse)

    async def _rehearse(self) -> bool:
        is_drafted = self._drafts is not None and self._drafts.is_linked
        return await self.engine.rehearse() if self.engine and is_drafted else True

    def _open_engine(self, on_failure: Callable[[], None]) -> TargetEngine:
        model = fetch(self._config.model)
        self._name = self._name or model.name
        self._chat_template = ChatTemplate.from_model(model.path)
        return TargetEngine.open(
            replace(self._config, model=model.path),
            predictors=self._predictors,
            policy=self._policy,
            progress=self._progress,
            try_out=self._chat_template.try_out,
            on_failure=on_failure,
        )


def _check_links(run_ahead: int | None, num_alternates: int) -> None:
    check_range("run_ahead", run_ahead or 0, 0, _MOST_RUN_AHEAD)
    check_range("alternates", num_alternates, 0, _MOST_ALTERNATES)


async def _warm_up(engine: TargetEngine) -> None:
    """Generate a few tokens, so that the first request finds memory touched and code paged in."""
    stops = StopConditions(max_tokens=min(_WARM_UP_TOKENS, engine.model.context_length - 1))
    sampling = SamplingParams(seed=0, temperature=0.0)
    request = Request(request_id="warm-up", prompt=(0,), sampling=sampling, stops=stops)
    (sequence,) = engine.submit(engine.prepare(request))
    async for event in sequence.stream:
        if isinstance(event, Failed):
            raise EngineFailedError(event.message)
