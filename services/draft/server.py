"""DraftServer: the life of the draft service: listen, load, serve, end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from outrider.servers.channel import is_local
from outrider.v1 import draft_pb2
from outrider.v1.draft_pb2_grpc import add_DraftServiceServicer_to_server
from services.draft.draft_admin import DraftAdmin
from services.draft.draft_metrics import CurrentDraftMetrics, DraftMetrics
from services.draft.engine import DraftEngine
from services.draft.link import Quotas
from services.draft.sequence_traces import SequenceTraces
from services.draft.servicer import DraftServicer
from services.draft.vocabulary.vocabularies import Vocabularies, Way
from services.draft_protocol.protocol import MAX_REQUEST_BYTES
from services.engine.config import CPU, ConfigError, EngineConfig, check_cpu_option
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.hub.fetch import fetch, fetch_tokenizer
from services.engine.hub.hub_name import ModelSource
from services.engine.loaded_model import LoadedModel
from services.engine.text.tokenizer import Tokenizer
from services.service.access.tokens import read_callers
from services.service.admin.admin_server import AdminServer
from services.service.engine_host import EngineHost
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.life.reload import Reload
from services.service.rpc_server import RpcServer
from services.service.server_config import ServerConfig
from services.telemetry.call_metrics import CallMetrics
from services.telemetry.telemetry import Telemetry
from services.telemetry.telemetry_config import TelemetryConfig

logger = logging.getLogger(__name__)

SERVICE: str = draft_pb2.DESCRIPTOR.services_by_name["DraftService"].full_name
_FAILED = "the draft's engine has failed; another one is started"
_HANGS = "the draft's engine hangs"
_MAX_RUN = 4  # tokens predicted between two looks at the targets' messages
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0  # seconds
_CALM = 60.0  # seconds without a failure, after which the pause is reset


class DraftServer:
    """Call `start`, then `open`, and finally `close`, all on one event loop."""

    def __init__(
        self,
        engine: EngineConfig,
        server: ServerConfig,
        *,
        name: str | None = None,
        loras: Mapping[str, Path] = MappingProxyType({}),
        target_tokenizers: Iterable[ModelSource] = (),
        translate: Way = Way.AUTO,
        head_shortlist: int | None = None,
        telemetry: TelemetryConfig | None = None,
    ) -> None:
        """`name` is the model's name for targets, by default that of its folder or on the hub.

        `loras` are folders of adapters, by the names of the targets' adapters. `target_tokenizers` are the models of
        targets with other vocabularies than the draft's, and `translate` is how to predict for these. `head_shortlist`
        is the number of tokens to predict among, by default all. Raises ConfigError if OpenTelemetry is wanted and not
        installed, and for `target_tokenizers` on a GPU.
        """
        self._telemetry = Telemetry(telemetry, "outrider-draft")
        self._config, self._loras = engine, loras
        self._translate, self._head_shortlist = translate, head_shortlist
        self._tokenizer_sources = [*target_tokenizers]
        for source in self._tokenizer_sources:
            check_cpu_option("target_tokenizer", source, engine.device)
        if len(engine.devices) > 1:
            raise ConfigError(f"device is {engine.device!r}; a draft has one device")
        self._target_tokenizers: list[Tokenizer] = []
        self._name = name or ""
        self._progress, self.reload, self._restarts = LoadingProgress(), Reload(), Restarts()
        self.availability = Availability(self._set_availability)
        self._host = EngineHost(self._open_engine, self.availability, hang_seconds=server.hang_seconds)
        _check_named_targets(server)
        callers = read_callers(server.tokens_file)
        self._servicer = DraftServicer(callers)
        self._server = RpcServer(
            server,
            callers,
            [SERVICE],
            lambda rpc: add_DraftServiceServicer_to_server(self._servicer, rpc),
            self._progress,
            max_request_bytes=MAX_REQUEST_BYTES,
        )
        admin = DraftAdmin(self.availability, self.reload, self._telemetry, lambda: self.engine, self._servicer)
        self.admin = AdminServer(server, callers, admin, self._progress)

    @property
    def engine(self) -> DraftEngine | None:
        """The engine, once the model is loaded."""
        return self._host.engine

    async def start(self) -> str:
        """Listen, and return the address; links get UNAVAILABLE until the model is loaded."""
        self._telemetry.start(CallMetrics(self._server.calls))
        await self.admin.start()
        return await self._server.start()

    async def open(self) -> None:
        """Load the model on a thread and serve; raises CheckpointError and ConfigError."""
        logger.info("loading %s", self._config.model)
        engine = await self._host.open()
        model = engine.model
        num_tokens = model.blocks.num_blocks * model.blocks.block_size
        quotas = Quotas(max_sequences=self._config.max_sequences, max_cached_tokens=num_tokens)
        self._servicer.open(engine, self._name, quotas, await asyncio.to_thread(self._vocabularies, engine.model))
        self._telemetry.add([CurrentDraftMetrics(self._new_metrics)])
        await self._set_availability(self.availability.reason)
        logger.info(
            "drafting with %s: device %s, %s weights, %s threads, context of %s tokens, %s KV blocks",
            self._name,
            model.device.name,
            model.weights,
            self._config.threads,
            model.context_length,
            model.blocks.num_blocks,
        )

    async def wait_failed(self) -> ExitCode:
        """Replace the engine whenever it fails; return when it hangs, since only the end of the process ends that."""
        while await self._host.wait_ended() is ExitCode.ENGINE_FAILED:
            await self.availability.obstruct(_FAILED)
            self._servicer.cut_links(_FAILED)
            await self._restarts.run(self._begin_anew)
            await self.availability.clear(_FAILED)
        await self.availability.obstruct(_HANGS)
        return ExitCode.ENGINE_HUNG

    async def _begin_anew(self) -> None:
        engine = await self._host.replace(DraftEngine.renewed)
        self._servicer.renew(engine)

    def _new_metrics(self) -> DraftMetrics:
        assert self.engine is not None
        return self.engine.new_metrics(self._name)

    async def _set_availability(self, reason: str) -> None:
        self._servicer.refuse(reason)
        await self._server.set_serving(not reason and self._servicer.is_open)

    async def close(self) -> None:
        """Cut the links, which costs the targets nothing but speed, and end the engine."""
        await self.availability.obstruct("the server is shutting down")
        await self._server.stop()
        await self.admin.stop()
        await self._host.close()
        await self._telemetry.close()

    def _vocabularies(self, model: LoadedModel) -> Vocabularies:
        return Vocabularies(
            model.tokenizer,
            self._target_tokenizers,
            size=model.checkpoint.config.vocab_size,
            translates=self._config.device == CPU and not model.checkpoint.config.has_states,
            way=self._translate,
        )

    def _open_engine(self, on_failure: Callable[[], None]) -> DraftEngine:
        sources = map(fetch_tokenizer, self._tokenizer_sources)
        self._target_tokenizers = [*map(Tokenizer.from_model, sources)]  # before the weights
        model = fetch(self._config.model)
        self._name = self._name or model.name
        config = replace(self._config, model=model.path)
        tracing = self._telemetry.tracing
        traces = SequenceTraces(tracing) if tracing else None
        return DraftEngine.open(
            config,
            self._progress,
            loras=self._loras,
            max_run=_MAX_RUN,
            on_failure=on_failure,
            traces=traces,
            head_shortlist=self._head_shortlist,
        )


def _check_named_targets(server: ServerConfig) -> None:
    """Raise ConfigError for a draft that other machines can reach and that cannot authenticate its targets."""
    names = server.tls_client_ca or server.tokens_file
    if not (names or server.insecure or is_local(server.listen)):
        raise ConfigError(
            f"listen is {server.listen}, where any machine may call as a target; give --tls-client-ca or --tokens-file "
            "so that targets are known, or say --insecure where nobody else is on that network"
        )


class Restarts:
    """Retries until the start succeeds, with pauses that double, so that an immediate failure costs little."""

    def __init__(self) -> None:
        self._pause = 0.0
        self._started_at = 0.0

    async def run(self, start: Callable[[], Awaitable[None]]) -> None:
        """Call `start` until it succeeds."""
        if time.monotonic() > self._started_at + _CALM:
            self._pause = 0.0
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            try:
                await start()
            except Exception:  # a lost device raises errors of any kind
                logger.exception("the engine cannot be restarted; the next try is in %.1f s", self._pause)
                continue
            self._started_at = time.monotonic()
            logger.warning("the engine has been restarted with the loaded weights")
            return
