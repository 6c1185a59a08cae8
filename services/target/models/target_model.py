"""TargetModel: one model of a target, which can be loaded and unloaded."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.events import Failed
from services.engine.hub.fetch import fetch
from services.engine.request import Request, StopConditions
from services.engine.sampling_params import SamplingParams
from services.service.engine_host import EngineHost
from services.service.errors import EngineFailedError
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.life.log_level import current_level
from services.service.limits import MAX_SESSIONS
from services.service.server_config import ServerConfig
from services.target.engines.engine_process import EngineProcess
from services.target.engines.model_setup import ModelSetup
from services.target.engines.own_engine import OwnEngine
from services.target.engines.remote_engine import RemoteEngine
from services.target.generation.engine_interface import Drafts, Engine
from services.target.message.syntax import MessageSyntax
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.target_load import TargetLoad
from services.target.models.served_model import ModelDescription, ServedModel
from services.target.models.serving import Admissions, Serving
from services.target.prompt.chat_template import ChatTemplate
from services.target.sessions.session_quota import SessionLimits
from services.target.sessions.sessions import Sessions

logger = logging.getLogger(__name__)

_WARM_UP_TOKENS = 4
_LAST_SECONDS = 1.0  # for the streams of an engine that was killed to end with its reason


class TargetModel:
    """Call `open`, then `close`, after which it may be opened again, all on one event loop."""

    def __init__(
        self,
        setup: ModelSetup,
        server: ServerConfig,
        availability: Availability,
        on_ended: Callable[[ExitCode], None],
    ) -> None:
        """`on_ended` is called when its engine has died or hangs. Raises ConfigError."""
        self.name = setup.name
        """The name for clients; empty before the first loading if none is configured."""
        self.loras = dict(setup.loras)
        """The folders of its adapters, by their names; `LoraChanges` changes them."""
        self.lora_dir = setup.lora_dir
        self.progress, self.statistics = LoadingProgress(), RequestStatistics()
        self.admissions = Admissions(server, max_sequences=setup.engine.max_sequences)
        self.serving: Serving | None = None
        """The objects that serve it while it is loaded; None otherwise."""
        self.loads = Loads()
        self.config = setup.engine
        """The engine's configuration at the next loading."""
        self._setup, self._server = setup, server
        self._on_ended = on_ended
        self._tasks: list[asyncio.Task[None]] = []  # that end with the engine
        self._last: ModelDescription | None = None
        self._opener = EngineProcess(setup, server) if setup.own_process else OwnEngine(setup, server)
        self._chat_template = ChatTemplate(None, {})
        self._host: EngineHost[Engine] = EngineHost(self._open_engine, availability, hang_seconds=server.hang_seconds)

    @property
    def engine(self) -> Engine | None:
        """The engine, once it is loaded."""
        return self._host.engine

    @property
    def drafts(self) -> Drafts | None:
        """Its drafts, if it has any or may get some."""
        return self._opener.drafts

    @property
    def description(self) -> ModelDescription | None:
        """The public facts of the model, once it has been loaded."""
        return self.serving.model.describe() if self.serving is not None else self._last

    async def has_draft(self) -> bool:
        """Whether any draft is linked."""
        return self.drafts is not None and not all((await self.drafts.absences()).values())

    @property
    def loaded_share(self) -> float:
        """The share of it that is in memory, 0 to 1."""
        return 1.0 if self.serving is not None else self.progress.share

    @property
    def num_at_work(self) -> int:
        """Streams and calls that use it, including those that wait for it, and its sessions."""
        return self.admissions.streams.total + self.admissions.text_calls.total + self.num_sessions

    @property
    def num_sessions(self) -> int:
        """The number of its open sessions."""
        return self.serving.sessions.num_open if self.serving is not None else 0

    async def open(self) -> None:
        """Load it on a thread, warm it up, serve it, and then rehearse with the drafts that answer.

        Raises CheckpointError, ConfigError and EngineFailedError; after any error it is closed.
        """
        began = time.monotonic()
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        self.loads.loaded(time.monotonic() - began)

    async def _open(self) -> None:
        logger.info("loading %s", self.config.model)
        engine = await self._host.open()
        self.follow_log_level()  # which may have changed meanwhile
        await _warm_up(engine)
        self._tasks.append(asyncio.create_task(self._watch()))
        model = self._served(engine)
        load = TargetLoad(engine, self.statistics, lambda: self.admissions.streams.total)
        sessions = _sessions(engine, self._server)
        self._tasks.append(asyncio.create_task(sessions.sweep()))
        self.serving = Serving(engine, model, self.admissions, self.statistics, load, sessions)
        await self._opener.start()
        logger.info(
            "serving %s: device %s, %s threads, context of %s tokens, %s KV blocks, fingerprint %s",
            model.name,
            engine.facts.device,
            self.config.threads,
            model.context_length,
            engine.facts.num_blocks,
            model.fingerprint,
        )

    async def _watch(self) -> None:
        code = await self._host.wait_ended()
        if code is ExitCode.ENGINE_HUNG and isinstance(engine := self.engine, RemoteEngine):
            engine.kill()  # which ends the streams with a reason
            await self.admissions.streams.wait_until_idle(_LAST_SECONDS)
        self._on_ended(code)

    def follow_log_level(self) -> None:
        """Let a process of its engine log messages of the same level as this one."""
        if isinstance(self.engine, RemoteEngine):
            self.engine.set_log_level(current_level())

    @property
    def process_id(self) -> int | None:
        """The id of its engine's process, if it has one of its own."""
        engine = self.engine
        return engine.process_id if isinstance(engine, RemoteEngine) else None

    async def drain(self, seconds: float, message: str) -> None:
        """Wait so long for streams to end, then cut the rest with this message; clients can continue elsewhere."""
        if not await self.admissions.streams.wait_until_idle(seconds):
            logger.warning("streams still run after %s s; they are cut", seconds)
            if self.engine is not None:
                self.engine.abandon(message)

    async def close(self) -> None:
        """End the links to drafts and the engine, and free its memory: no reference to it remains."""
        if self.serving is not None:
            model, self.serving = self.serving.model, None
            self._last = model.describe()
            self.loads.unloaded()
            await asyncio.to_thread(model.grammars.close)
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        await self._opener.stop()
        await self._host.close()
        self.progress = LoadingProgress()

    def _open_engine(self, on_failure: Callable[[], None]) -> Engine:
        """Open the engine; runs on a thread."""
        model = fetch(self.config.model)
        self.name = self.name or model.name
        self._chat_template = ChatTemplate.from_model(model.path)
        return self._opener.open(
            replace(self.config, model=model.path),
            self.loras,
            self.progress,
            try_out=self._chat_template.try_out,
            on_failure=on_failure,
        )

    def _served(self, engine: Engine) -> ServedModel:
        template, setup = self._chat_template, self._setup
        parsers = {"tool_parser": setup.tool_parser, "reasoning_parser": setup.reasoning_parser}
        syntax = MessageSyntax.find(template.source, engine.tokenizer, **parsers)
        return ServedModel.of(engine, self.name, template, syntax)


def _sessions(engine: Engine, server: ServerConfig) -> Sessions:
    blocks, sessions = engine.facts.session_blocks, int(min(MAX_SESSIONS, engine.facts.most_sessions))
    limits = SessionLimits(
        blocks=blocks,
        blocks_each=server.share(blocks),
        sessions=sessions,
        sessions_each=server.share(sessions),
    )
    return Sessions(limits, block_size=engine.facts.block_size, hold=engine.hold, let_go=engine.let_go)


async def _warm_up(engine: Engine) -> None:
    """Generate a few tokens, so that the first request finds memory touched and code paged in."""
    stops = StopConditions(max_tokens=min(_WARM_UP_TOKENS, engine.facts.context_length - 1))
    sampling = SamplingParams(seed=0, temperature=0.0)
    request = Request(request_id="warm-up", prompt=(0,), sampling=sampling, stops=stops, is_counted=False)
    (generation,) = await engine.submit([request])
    async for event in generation:
        if isinstance(event, Failed):
            raise EngineFailedError(event.message)
    engine.cancel(generation.number)


class Loads:
    """The counts of one model, for metrics."""

    def __init__(self) -> None:
        self.num_loads, self.num_unloads = 0, 0
        self.seconds = 0.0  # of all loads

    def loaded(self, seconds: float) -> None:
        """Count a load that took `seconds`."""
        self.num_loads += 1
        self.seconds += seconds

    def unloaded(self) -> None:
        """Count one unloading."""
        self.num_unloads += 1
